"""A pod's monitor: exits of apps, their order, cleanup."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ociruntime.base.errors import PodError
from ociruntime.pods.store import phases
from ociruntime.pods.store.control_client import ask
from tests.pods.endings import ending, start, state, wait_until_up
from tests.support import processes
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, lines, shell
from tests.support.pod_members import children, command_line
from tests.support.terminal import PtyCommand


def test_apps_that_do_not_stop_are_killed(ocipod: Ocipod, work: Path) -> None:
    deaf = "trap : TERM; echo up; while :; do sleep 0.1; done"
    one = start(ocipod, work, deaf)
    wait_until_up(ocipod, one, "a")
    ocipod("stop", "--wait", "--time=1", one).ok()
    assert state(ocipod, one, "a")["exit_code"] == 137
    two, three = start(ocipod, work, deaf), start(ocipod, work, deaf)
    ocipod("stop", "--wait", "--force", two, three).ok()
    assert [ending(ocipod, uuid)["code"] for uuid in (two, three)] == [0, 0]


def test_an_app_that_never_ran_is_not_started(ocipod: Ocipod, work: Path) -> None:
    """Its sibling fails while its container is still being created."""
    runtime = work / "bin" / Path(ocipod.runtime).name
    runtime.parent.mkdir()
    wait = "while ! [ -e apps/a/status ]; do sleep 0.05; done; sleep 1"
    script = f'case "$*" in *" create "*-b) {wait};; esac\nexec {ocipod.runtime} "$@"\n'
    runtime.write_text(f"#!/bin/sh\n{script}")
    runtime.chmod(0o755)
    apps = (busybox(work), "--name=a", *shell("exit 3"), "---", busybox(work), "--name=b")
    words = ("run", "--net=none", *apps, *shell("echo ran"))
    result = ocipod(f"--runtime={runtime}", *words)
    assert result.status == 3, result
    assert "ran" not in result.out
    (uuid,) = ocipod.pods("exited-garbage") or ocipod.pods("run")
    record = state(ocipod, uuid, "b")
    assert (record["state"], record["reason"], record["started"]) == ("exited", "not started", None)
    assert (record["exit_code"], record["signal"], record["stopped_by"]) == (254, None, "halt")


def test_the_only_image_may_follow_its_options(ocipod: Ocipod, work: Path) -> None:
    words = ("run", "--net=none", "--name=web", "--exec=/bin/echo", busybox(work), "--", "hi")
    assert lines(ocipod(*words).ok(), "web") == ["hi"]
    uuid = ocipod("app", "sandbox", "--detach", "--net=none").ok().out.strip()
    ocipod("app", "add", uuid, "--app=one", busybox(work), "--exec=/bin/true").ok()
    ocipod("app", "add", uuid, "--name=two", busybox(work), "--exec=/bin/true").ok()
    ocipod("app", "add", uuid, "--app=x", "--name=y", busybox(work)).failed("--app and --name")
    assert ocipod("app", "list", "--no-legend", uuid).ok().out.split()[::2] == ["one", "two"]


def test_what_stop_refuses(ocipod: Ocipod, work: Path) -> None:
    uuid = ocipod("prepare", "--quiet", busybox(work)).out.strip()
    ocipod("stop", uuid).failed("prepared")
    ocipod("stop").failed("uuid-file")
    ocipod("stop", "--time=-1", uuid).failed("--time")
    running = start(ocipod, work, "exec sleep 60")
    file = work / "uuid"
    file.write_text(running)
    assert ocipod("stop", uuid, running).status == 254
    ocipod.wait_for(running, "exited")
    assert "already stopped" in ocipod("stop", f"--uuid-file={file}").ok().out


def test_signals_to_the_foreground(ocipod: Ocipod, work: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        words = ("run", "--net=none", busybox(work), "--name=a", *shell("exec sleep 60"))
        before = set(ocipod.pods("run"))
        process = ocipod.popen(*words)
        ready = [False]

        def is_ready(known: set[str] = before, ready: list[bool] = ready) -> bool:
            for uuid in set(ocipod.pods("run")) - known:
                ready[0] = (ocipod.path(uuid) / "ready").is_symlink()
            return ready[0]

        assert processes.until(is_ready)
        process.send_signal(number)
        assert process.wait(20) == 0
        (uuid,) = set(ocipod.pods("run")) - before
        assert state(ocipod, uuid, "a")["stopped_by"] == "pod stop"


def test_interrupted_at_the_terminal(ocipod: Ocipod, work: Path) -> None:
    """^C at any moment reaches only the monitor."""
    for script in ("echo ready; exec sleep 60", "exec sleep 60"):
        words = ("run", "--net=none", busybox(work), "--name=a", *shell(script))
        before = set(ocipod.pods("run"))
        command = PtyCommand(ocipod.command(*words))
        try:
            if "ready" in script:
                command.terminal.read_until("]: ready")
            else:
                assert processes.until(lambda: len(ocipod.pods("run")) > 1)
                assert processes.until(lambda: has_socket(ocipod))
            command.terminal.write("\x03")
            assert command.wait() == 0, command.terminal.seen
        finally:
            command.close()
        (uuid,) = set(ocipod.pods("run")) - before
        assert ending(ocipod, uuid)["code"] == 0


def has_socket(ocipod: Ocipod) -> bool:
    return any((ocipod.path(uuid) / "ctl").exists() for uuid in ocipod.pods("run"))


def test_daemons_end_with_their_app(ocipod: Ocipod, work: Path) -> None:
    uuid = start(ocipod, work, "setsid sleep 4321 & sleep 0.3", "exec sleep 60")
    assert processes.until(lambda: state(ocipod, uuid, "a")["state"] == "exited")

    def is_alone() -> bool:
        return "4321" not in ocipod("app", "exec", "--app=b", uuid, "ps").ok().out

    assert processes.until(is_alone)
    assert ocipod.state(uuid) == "running"


def test_out_of_memory(ocipod: Ocipod, work: Path) -> None:
    words = (
        "run",
        "--net=none",
        busybox(work),
        "--name=a",
        "--memory=16M",
        *shell("tail /dev/zero"),
    )
    assert ocipod(*words).status == 137
    found = state(ocipod, ocipod.pods()[0], "a")
    assert found["oom_killed"]
    assert found["signal"] in (9, None)  # the shell may have lived on


def test_the_end_of_the_first_process(ocipod: Ocipod, work: Path) -> None:
    uuid = start(ocipod, work, "exec sleep 60")
    os.kill(ocipod.monitor(uuid)["init_pid"], signal.SIGKILL)
    ocipod.wait_for(uuid, "exited")
    ended = ending(ocipod, uuid)
    assert ended["code"] == 137
    assert "init" in ended["reason"]
    assert state(ocipod, uuid, "a")["exit_code"] == 137


def test_a_monitor_that_cannot_write(ocipod: Ocipod, work: Path) -> None:
    """Events that it could not record have happened nevertheless."""
    uuid = start(ocipod, work, "exec sleep 60")
    in_the_way = ocipod.path(uuid) / "apps" / "a" / "state.json.new"
    in_the_way.mkdir()
    ocipod("enter", uuid, "sh", "-c", "kill -9 $(pidof sleep)")
    ocipod.wait_for(uuid, "exited", seconds=40)
    ended = ending(ocipod, uuid)
    assert (ended["code"], ended["reason"]) == (137, "app a ended with 137")
    assert 'write "apps/a/state.json": ' in (ocipod.path(uuid) / "monitor.log").read_text()
    in_the_way.rmdir()


def test_the_end_of_the_monitor(ocipod: Ocipod, work: Path) -> None:
    uuid = start(ocipod, work, "exec sleep 60")
    os.kill(ocipod.monitor(uuid)["pid"], signal.SIGKILL)

    def has_exited() -> bool:
        processes.reap_orphans()
        return ocipod.state(uuid) == "exited"

    assert processes.until(has_exited)
    shown = ocipod("app", "status", uuid).ok().out
    assert "state=exited" in shown
    assert "exit_code" not in shown
    assert "already stopped" in ocipod("stop", uuid).ok().out


def test_nobody_else_has_the_lock(ocipod: Ocipod, work: Path) -> None:
    uuid = start(ocipod, work, "exec sleep 60")
    path = str(ocipod.path(uuid))
    monitor = ocipod.monitor(uuid)["pid"]
    holders = []
    for pid in (monitor, *children(monitor)):
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        holders += [command_line(pid)[0] or str(pid)] if path in links else []
    assert holders == [command_line(monitor)[0], "ocipod-lock"]


def test_the_first_process_gives_nothing_away(ocipod: Ocipod, work: Path) -> None:
    uuid = start(ocipod, work, "exec sleep 60")
    links = [f"/proc/1/{name}" for name in ("root", "exe", "cwd", "fd/0", "ns/mnt")]
    done = ocipod("enter", uuid, "sh", "-c", "cat /proc/1/cmdline; readlink " + " ".join(links))
    assert done.out.rstrip("\0") == "ocipod-init"
    assert ocipod("enter", uuid, "cat", "/proc/1/environ").out == ""


def test_a_monitor_that_does_not_answer(ocipod: Ocipod, work: Path) -> None:
    uuid = start(ocipod, work, "exec sleep 60")
    os.kill(ocipod.monitor(uuid)["pid"], signal.SIGSTOP)
    process = ocipod.popen("stop", "--force", "--wait", uuid)

    def has_ended() -> bool:
        if ocipod.state(uuid) != "running":
            return process.wait(20) == 0
        processes.reap_orphans()
        return False

    assert processes.until(has_ended, 40)


def test_who_may_ask(ocipod: Ocipod, work: Path) -> None:
    uuid = start(ocipod, work, "exec sleep 60")
    assert (ocipod.path(uuid) / "ctl").stat().st_mode & 0o777 == 0o600


def test_requests_that_no_command_makes(ocipod: Ocipod) -> None:
    uuid = ocipod("app", "sandbox", "--detach", "--net=none").ok().out.strip()
    with phases.open_pod(str(ocipod.directory), uuid) as pod:
        for request, answer in (
            ({"op": "dance"}, '"dance"'),
            ({"op": "add", "app": "x"}, '"x"'),
            ({"op": "start", "app": "x"}, '"x"'),
            (
                {"op": "halt", "seconds": -1},
                "halt",
            ),
        ):
            with pytest.raises(PodError) as refused:
                ask(pod, request, 20)
            assert answer in str(refused.value)
        assert pod.refresh() == "running"
