"""A node changes its runtime from runc to ociruntime and back, with running pods."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.engines.cri.client import Cri
from tests.engines.cri.conftest import OURS_FIRST
from tests.engines.cri.pod import EXITED, READY, RUNNING, Pod
from tests.engines.scripts import MIB
from tests.support import cgroupfs, leaks, processes
from tests.support.peers import judge_by
from tests.support.runtime import Runtime

STATE = Path("/run/containerd/runc/k8s.io")
OWN, JUDGE = "ociruntime", "runc"
DEFAULT = ""  # a pod without runtimeClassName
COUNTS = "n=0; while :; do n=$((n+1)); echo $n; sleep 0.05; done"


def maker(cri: Cri, runtime: Runtime, container: str) -> str:
    """Return which runtime has created a container: the one that knows its name."""
    programs = {OWN: runtime.path, JUDGE: cri.installed.runc}
    found = []
    for name, program in programs.items():
        command = [str(program), "--root", str(STATE), "state", container]
        done = subprocess.run(command, capture_output=True, text=True, env=cri.env)
        if done.returncode == 0:
            assert json.loads(done.stdout)["status"] == "running"
            found.append(name)
        elif name == OWN:
            assert "another runtime" in done.stderr
    (one,) = found
    return one


class Watched:
    """A pod with a container that must not notice the change."""

    def __init__(self, cri: Cri, handler: str, number: int) -> None:
        self.pod = Pod(cri, handler, name=f"{handler or 'default'}-{number}")
        self.one = self.pod.run("one", "sh", "-c", COUNTS)
        self.pids = cri.pid(self.pod.id), cri.pid(self.one)
        assert processes.until(lambda: bool(self.pod.log("one")))

    def check(self) -> None:
        """Check that the container still runs, and that all operations on it work."""
        pod, cri = self.pod, self.pod.cri
        assert (cri.pid(pod.id), cri.pid(self.one)) == self.pids
        assert cri.PodSandboxStatus(pod_sandbox_id=pod.id).status.state == READY
        assert pod.status(self.one).state == RUNNING
        count = len(pod.log("one"))
        assert processes.until(lambda: len(pod.log("one")) > count)
        numbers = [int(line.split()[1]) for line in pod.log("one")]
        assert numbers == list(range(1, len(numbers) + 1))
        assert pod.execute(self.one, "sh", "-c", "echo out; exit 3") == (3, "out\n", "")
        limit = (64 + len(numbers) % 2) * MIB
        cri.UpdateContainerResources(container_id=self.one, linux={"memory_limit_in_bytes": limit})
        files = ("memory", "memory.limit_in_bytes", "memory.max")
        assert cgroupfs.setting(self.pids[1], *files) == str(limit)
        assert cri.ContainerStats(container_id=self.one).stats.memory.working_set_bytes.value


@judge_by("ociruntime")
def test_rolling_change(node: Cri, runtime: Runtime) -> None:
    """Existing pods stay with the runtime that has created them; new ones use the new one."""
    watched: list[Watched] = []
    for number, default in enumerate((JUDGE, OWN, JUDGE)):
        node.restart(lambda default=default: node.set_default(default))  # type: ignore[misc]
        for one in watched:
            one.check()
        # The pods that name their runtime, and those that do not.
        new = {handler: Watched(node, handler, number) for handler in (OWN, JUDGE, DEFAULT)}
        for handler, one in new.items():
            assert maker(node, runtime, one.one) == (handler or default)
            one.check()
        # A container that the kubelet replaces in such a pod gets the runtime of its sandbox.
        for old in watched:
            if old.pod.handler == DEFAULT:
                again = old.pod.run("again", "sleep", "1000", metadata={"name": f"n{number}"})
                assert maker(node, runtime, again) == maker(node, runtime, old.pod.id)
                script = "readlink /proc/self/ns/ipc"
                assert old.pod.shell(again, script) == old.pod.shell(old.one, script)
                node.StopContainer(container_id=again, timeout=0)
                assert old.pod.await_state(again, EXITED).exit_code == 137
        watched += new.values()
    for one in watched:
        one.check()
        one.pod.remove()
        assert not any(map(processes.alive, one.pids))
    assert not leaks.entries(STATE)


@pytest.mark.long
def test_containers_that_end_while_containerd_is_down(node: Cri) -> None:
    """Containerd later reports the same exits as with runc."""
    seen = {}
    for handler in (OWN, JUDGE):
        pod, other = Pod(node, handler, name="first"), Pod(node, handler, name="second")
        ends = pod.run("ends", "sh", "-c", "until [ -e /dev/shm/go ]; do sleep 0.02; done; exit 7")
        killed = pod.run("killed", "sleep", "1000")
        stays = pod.run("stays", "sleep", "1000")
        pids = [node.pid(name) for name in (ends, killed, other.id)]

        def end(pids: list[int] = pids) -> None:
            Path(f"/proc/{pids[0]}/root/dev/shm/go").touch()
            processes.end(set(pids[1:]))
            assert processes.until(lambda: not processes.alive(pids[0]))

        node.restart(end)
        # containerd clears a shim away that has no process left, and the status with it.
        found = [pod.await_state(one, EXITED).exit_code for one in (ends, killed)]
        assert pod.status(stays).state == RUNNING
        assert pod.execute(stays, "true")[0] == 0
        status = node.PodSandboxStatus(pod_sandbox_id=other.id).status
        assert status.state != READY
        pod.remove()
        other.remove()
        seen[handler] = found
    assert seen[OWN] == seen[JUDGE]
    assert seen[OWN] in ([7, 137], [255, 255])
    assert not leaks.entries(STATE)


@pytest.mark.parametrize("handler", OURS_FIRST)
def test_killed_daemon(node: Cri, handler: str) -> None:
    """A crash during a probe: the container keeps running, and nothing is left behind."""
    pod = Pod(node, handler)
    one = pod.run("one", "sleep", "1000")
    with ThreadPoolExecutor(1) as caller:
        probe = caller.submit(pod.execute, one, "sleep", "1001")
        assert processes.until(lambda: any(map(is_probe, processes.descendants())))
        node.daemon.kill()
        with pytest.raises(node.Error):
            probe.result()
    node.restart()
    assert pod.status(one).state == RUNNING
    assert pod.execute(one, "true")[0] == 0
    pod.remove()
    assert not leaks.entries(STATE)


def is_probe(pid: int) -> bool:
    return processes.describe(pid).endswith("(sleep 1001)")
