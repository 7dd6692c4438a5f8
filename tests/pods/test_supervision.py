"""What becomes of a pod's apps: their ends, their order, what is left of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support import processes
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, shell
from tests.support.pod_members import children, command_line
from tests.support.terminal import PtyCommand

PEERS = [path for name in ("runc",) if (path := shutil.which(name, path="/usr/sbin:/usr/bin"))]


def state(ocipod: Ocipod, uuid: str, app: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(
        (ocipod.path(uuid) / "apps" / app / "state.json").read_text()
    )
    return value


def ending(ocipod: Ocipod, uuid: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((ocipod.path(uuid) / "exit").read_text())
    return value


def start(ocipod: Ocipod, work: Path, *scripts: str) -> str:
    """The UUID of a pod with an app a script, called a, b and so on, in the background."""
    words: list[str] = []
    for name, script in zip("abc", scripts, strict=False):
        words += ["---"] if words else []
        words += [busybox(work), f"--name={name}", *shell(script)]
    return ocipod("run", "--detach", "--net=none", *words).ok().out.strip()


def wait_until_up(ocipod: Ocipod, uuid: str, app: str) -> None:
    """Until the app has written "up"."""
    log = ocipod.path(uuid) / "logs" / f"{app}.log"
    assert processes.until(lambda: b" up\n" in log.read_bytes(), 20)


@pytest.fixture(params=["", *PEERS], ids=lambda path: Path(path).name or "ociruntime")
def pods(request: pytest.FixtureRequest, ocipod: Ocipod) -> Ocipod:
    """``ocipod`` with one runtime after another."""
    if request.param:
        ocipod.runtime = Path(request.param)
    return ocipod


def test_the_first_failure_halts_the_others(pods: Ocipod, work: Path) -> None:
    image = busybox(work)
    done = pods(
        *("run", "--net=none", "--volume=v,kind=empty", "--mount=volume=v,target=/v"),
        *(image, "--name=a", *shell("until [ -e /v/b -a -e /v/c ]; do sleep 0.05; done; exit 5")),
        *("---", image, "--name=b"),
        *shell("trap 'exit 0' TERM", "touch /v/b", "sleep 60 & wait"),
        *("---", image, "--name=c", *shell("touch /v/c", "exec sleep 60")),
    )
    (uuid,) = pods.pods()
    assert done.status == 5, done
    assert ending(pods, uuid) == {"code": 5, "reason": "app a ended with 5"}
    assert [state(pods, uuid, name)["exit_code"] for name in "abc"] == [5, 0, 143]
    assert [state(pods, uuid, name)["stopped_by"] for name in "abc"] == [None, "halt", "halt"]
    assert not (pods.path(uuid) / "ready").is_symlink()
    assert not (pods.path(uuid) / "ctl").exists()


def test_programs_that_cannot_be_executed(pods: Ocipod, work: Path) -> None:
    for program, code in (("/nope", 127), ("/etc/passwd", 126)):
        done = pods("run", "--net=none", busybox(work), "--name=a", f"--exec={program}")
        assert done.status == code, done
        assert program in done.err
        failed = pods("run", "--detach", "--net=none", busybox(work), f"--exec={program}")
        assert program in failed.failed().err
    written = [pods("logs", uuid).err for uuid in pods.pods()]
    assert sum("/nope" in text for text in written) == 2


def test_entering(pods: Ocipod, work: Path) -> None:
    uuid = start(pods, work, "exec sleep 60")
    done = pods("enter", uuid, "sh", "-c", "echo $AC_APP_NAME; exit 9")
    assert (done.status, done.out) == (9, "a\n")
    words = ("--user=33:34", "--cwd=/data", "--env=X=1 2", "--", "sh", "-c", "id -u; pwd; echo $X")
    assert pods("app", "exec", uuid, *words).ok().out == "33\n/data\n1 2\n"
    pods("enter", "--app=b", uuid).failed('no app "b"', "a")


def test_stopping(ocipod: Ocipod, work: Path) -> None:
    script = "trap 'exit 3' TERM; echo up; while :; do sleep 0.1; done"
    uuid = start(ocipod, work, "exec sleep 60", script)
    wait_until_up(ocipod, uuid, "b")
    assert ocipod("stop", "--wait", uuid[:8]).ok().out == f'"{uuid}"\n'
    assert ending(ocipod, uuid)["code"] == 0
    assert [state(ocipod, uuid, name)["exit_code"] for name in "ab"] == [143, 3]
    assert state(ocipod, uuid, "b")["stopped_by"] == "pod stop"
    assert ocipod("stop", uuid).ok().out == f'pod "{uuid}" is already stopped\n'


def test_apps_that_do_not_stop_are_killed(ocipod: Ocipod, work: Path) -> None:
    deaf = "trap : TERM; echo up; while :; do sleep 0.1; done"
    one = start(ocipod, work, deaf)
    wait_until_up(ocipod, one, "a")
    ocipod("stop", "--wait", "--time=1", one).ok()
    assert state(ocipod, one, "a")["exit_code"] == 137
    two, three = start(ocipod, work, deaf), start(ocipod, work, deaf)
    ocipod("stop", "--wait", "--force", two, three).ok()
    assert [ending(ocipod, uuid)["code"] for uuid in (two, three)] == [0, 0]


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
    """Whenever it comes: what is typed reaches the monitor alone."""
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
    assert ending(ocipod, uuid) == {"code": 137, "reason": "the pod's first process was killed"}
    assert state(ocipod, uuid, "a")["exit_code"] == 137


def test_a_monitor_that_cannot_write(ocipod: Ocipod, work: Path) -> None:
    """It ends the pod, whatever it was about to do with the app."""
    uuid = start(ocipod, work, "exec sleep 60")
    in_the_way = ocipod.path(uuid) / "apps" / "a" / "state.json.new"
    in_the_way.mkdir()
    ocipod("enter", uuid, "sh", "-c", "kill -9 $(pidof sleep)")
    ocipod.wait_for(uuid, "exited", seconds=40)
    assert ending(ocipod, uuid)["code"] == 254
    assert "state.json" in ending(ocipod, uuid)["reason"]


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
    assert holders == [command_line(monitor)[0], "ocipod-keeper"]


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
