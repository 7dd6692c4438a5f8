"""The lifecycle of real pods, from ``prepare`` to their removal."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

from ociruntime.pods.store import phases
from tests.pods import stubs
from tests.support import processes
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, shell

RUN = ("run-prepared", "--net=none")


def prepare(ocipod: Ocipod, work: Path, *script: str) -> str:
    uuid = ocipod("prepare", "--quiet", busybox(work), *shell(*script)).ok().out.strip()
    assert ocipod.state(uuid) == "prepared"
    return uuid


def seen_state(ocipod: Ocipod, uuid: str) -> str:
    """Return the state that any observer sees."""
    pod = phases.find(str(ocipod.directory), uuid)
    if pod is None:
        return "gone"
    with pod:
        return pod.state


class Watch:
    """The pod's states, observed every few milliseconds; each change is listed once."""

    def __init__(self, ocipod: Ocipod, uuid: str) -> None:
        self._ocipod = ocipod
        self._uuid = uuid
        self.states = [seen_state(ocipod, uuid)]

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds, checking at least once more; fail on timeout."""
        deadline = time.monotonic() + 60
        while True:
            state = seen_state(self._ocipod, self._uuid)
            if state != self.states[-1]:
                self.states.append(state)
            if condition():
                return
            assert time.monotonic() < deadline, self.states
            time.sleep(0.01)


def test_one_of_many_runs_it_and_it_exits_once(ocipod: Ocipod, work: Path) -> None:
    (work / "shared").mkdir()
    volume = (f"--volume=v,kind=host,source={work}/shared", "--mount=volume=v,target=/v")
    script = shell("echo ran", "until [ -e /v/end ]; do sleep 0.05; done", "exit 6")
    uuid = ocipod("prepare", "--quiet", *volume, busybox(work), *script).ok().out.strip()
    watch = Watch(ocipod, uuid)
    running = [stubs.started(ocipod, *RUN, uuid) for _ in range(20)]
    watch.until(lambda: sum(one.poll() is None for one in running) == 1)
    losers = [one for one in running if one.poll() is not None]
    for one in losers:
        stubs.finish(ocipod, one).failed(f"run pod {uuid}: ", "its state is")
    (winner,) = set(running) - set(losers)
    watch.until(lambda: watch.states[-1] == "running")
    (work / "shared" / "end").touch()
    watch.until(lambda: winner.poll() is not None)
    assert stubs.finish(ocipod, winner).status == 6
    later = iter(range(30))
    watch.until(lambda: next(later) == 29)
    assert watch.states == ["prepared", "running", "exited"]
    log = (ocipod.path(uuid) / "logs" / "busybox.log").read_text()
    assert log.count(" ran") == 1
    assert ocipod.status(uuid)["app-busybox"] == "6"
    ocipod("run-prepared", uuid).failed(f'run pod {uuid}: its state is "exited", not')
    ocipod("gc").ok()
    ocipod("run-prepared", uuid[:8]).failed('state is "exited garbage"')
    assert ocipod.status(uuid)["app-busybox"] == "6"


def test_it_is_not_expired_when_it_is_about_to_run(ocipod: Ocipod, work: Path) -> None:
    uuid = prepare(ocipod, work, "exit 0")
    runner = stubs.started(ocipod, *RUN, uuid, fault="runprepared.after-lock:stop")
    assert stubs.stopped(runner)
    ocipod("gc", "--expire-prepared=0s").silent()
    ocipod("rm", uuid).failed(f'pod {uuid}: its state is "prepared"', "locked")
    runner.send_signal(signal.SIGCONT)
    stubs.finish(ocipod, runner).ok()
    assert ocipod.state(uuid) == "exited"


def test_a_running_pod_is_left_alone(ocipod: Ocipod, work: Path) -> None:
    image = busybox(work)
    words = ("run", "--detach", "--net=none", image, "--name=a", *shell("exec sleep 60"))
    uuid = ocipod(*words, "---", image, "--name=b", *shell("exit 0")).ok().out.strip()
    ocipod("status", uuid, "--wait-ready=20s").ok()
    ocipod("gc", "--grace-period=0s", "--expire-prepared=0s").silent()
    ocipod("rm", uuid).failed('is "running" (stop it first)')
    status = ocipod.status(uuid)
    assert (status["state"], processes.alive(int(status["pid"]))) == ("running", True)
    (first, second) = ocipod("list", "--no-legend").ok().out.splitlines()
    assert first.startswith(f"{uuid[:8]}\ta\t")
    assert "\trunning\t" in first
    assert second.startswith("\t\tb\t")
    ocipod("stop", uuid).ok()
    assert "state=exited" in ocipod("status", uuid, "--wait=20s").ok().out
    status = ocipod.status(uuid)
    assert (status["app-a"], status["app-b"]) == ("143", "0")
    assert "pid" not in status
    assert ocipod("rm", uuid).ok().out == f'"{uuid}"\n'
    assert ocipod.pods() == []
