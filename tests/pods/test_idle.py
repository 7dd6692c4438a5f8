"""An idle monitor hibernates without the interpreter, with no visible difference."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.pods.test_logs import entries
from tests.support import processes
from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, shell
from tests.support.pod_members import children, command_line, is_free, living, pid_namespace
from tests.support.runtime import execute
from tests.support.terminal import PtyCommand

# Seconds: much longer than an interpreter needs to handle what has woken it.
TIMEOUT = {"OCIPOD_IDLE_TIMEOUT": "0.1"}


@pytest.fixture(autouse=True)
def _snapshots(ocipod: Ocipod) -> None:
    """Make the runtime's snapshot: a maker in the background would be adopted by a monitor."""
    execute([str(ocipod.runtime), "snapshot", "make"]).ok()


class Idle:
    """A pod with an app ``a``, which executes commands that it reads from the FIFO ``/v/go``."""

    def __init__(
        self, ocipod: Ocipod, work: Path, *options: str, script: str = "", fault: str = ""
    ) -> None:
        self.ocipod = ocipod
        self.fifo = work / "v" / "go"
        self.fifo.parent.mkdir()
        os.mkfifo(self.fifo)
        pod = ["--detach", "--net=none", f"--volume=v,kind=host,source={self.fifo.parent}"]
        pod += [option for option in options if option.startswith("--flavor")]
        app = [busybox(work), "--name=a", "--mount=volume=v,target=/v"]
        app += [option for option in options if not option.startswith("--flavor")]
        lines = shell(script or "while :; do read -r line </v/go; eval $line; done")
        env = {**TIMEOUT, "OCIPOD_FAULT": fault}
        self.uuid = ocipod("run", *pod, *app, *lines, env=env).ok().out.strip()
        self.pid = int(ocipod.monitor(self.uuid)["pid"])
        self.wait()

    def is_asleep(self) -> bool:
        return is_asleep(self.pid)

    def wait(self) -> None:
        """Wait until the monitor hibernates, or stops at the injected fault."""

        def there() -> bool:
            return self.is_asleep() or processes.state(self.pid) == "T"

        assert processes.until(there, 20), processes.describe(self.pid)

    def do(self, command: str) -> None:
        """Let the app execute a command; wait for its effect."""
        self.fifo.write_text(f"{command}\n")

    def log(self) -> list[tuple[str, ...]]:
        return entries(self.ocipod.path(self.uuid) / "logs" / "a.log")

    def state(self) -> dict[str, Any]:
        path = self.ocipod.path(self.uuid) / "apps" / "a" / "state.json"
        value: dict[str, Any] = json.loads(path.read_text())
        return value

    def end(self) -> dict[str, Any]:
        """Wait for the pod's exit; return its status."""
        self.ocipod.wait_for(self.uuid, "exited")
        value: dict[str, Any] = json.loads((self.ocipod.path(self.uuid) / "exit").read_text())
        return value


def is_asleep(pid: int) -> bool:
    """Return whether the monitor is the stub, and waits for events."""
    if not os.readlink(f"/proc/{pid}/exe").endswith("/_hibernation"):
        return False
    try:
        return "anon_inode:[signalfd]" in descriptors(pid)
    except FileNotFoundError:
        return False  # it is just waking up


def lock_holders(pid: int) -> list[int]:
    return [one for one in children(pid) if command_line(one)[:1] == ["ocipod-lock"]]


def descriptors(pid: int) -> list[str]:
    """Return the targets of the monitor's descriptors; their numbers may differ."""
    place = f"/proc/{pid}/fd"
    return sorted(os.readlink(f"{place}/{name}") for name in os.listdir(place))


def test_what_it_is(ocipod: Ocipod, work: Path) -> None:
    pod = Idle(ocipod, work)
    assert command_line(pod.pid)[0] == f"ocipod monitor {pod.uuid} (idle)"
    assert Path(f"/proc/{pod.pid}/comm").read_text() == "ocipod-monitor\n"
    rollup = Path(f"/proc/{pod.pid}/smaps_rollup").read_text()
    pss = next(line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:"))
    assert int(pss) < 64
    noted = ocipod.monitor(pod.uuid)
    assert ocipod.state(pod.uuid) == "running"
    assert ocipod("enter", pod.uuid, "echo", "here").ok().out == "here\n"
    assert is_asleep(pod.pid), "looking woke it"
    pod.do("echo awake")
    assert processes.until(lambda: pod.log() == [("stdout", "F", "awake")])
    assert ocipod.monitor(pod.uuid) == noted


def test_output(ocipod: Ocipod, work: Path) -> None:
    """Each piece wakes it, even a part of a line."""
    pod = Idle(ocipod, work)
    before = descriptors(pod.pid)
    expected: list[tuple[str, ...]] = []

    def is_written() -> bool:
        return [one for one in pod.log() if one[0] == "stdout"] == expected

    for number in range(3):
        pod.do(f"printf {number}-; echo err >&2")
        expected.append(("stdout", "P", f"{number}-"))
        assert processes.until(is_written), pod.log()
        pod.wait()
        pod.do("echo end")
        expected.append(("stdout", "F", "end"))
        assert processes.until(is_written), pod.log()
        pod.wait()
    assert [one for one in pod.log() if one[0] == "stderr"] == [("stderr", "F", "err")] * 3
    assert descriptors(pod.pid) == before
    assert ocipod("logs", "--stream=stdout", pod.uuid).out == "0-end\n1-end\n2-end\n"


def test_the_end_of_an_app(ocipod: Ocipod, work: Path) -> None:
    pod = Idle(ocipod, work)
    pod.do("echo last; exit 7")
    assert pod.end() == {"code": 7, "reason": "app a ended with 7", "clean": True}
    assert pod.state()["exit_code"] == 7
    assert pod.state()["finished"] > pod.state()["started"]
    assert pod.log() == [("stdout", "F", "last")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals(ocipod: Ocipod, work: Path, number: int) -> None:
    pod = Idle(ocipod, work, script="trap 'echo stopped; exit 3' TERM; while :; do sleep 0.1; done")
    os.kill(pod.pid, number)
    assert pod.end() == {"code": 0, "reason": "", "clean": True}
    assert (pod.state()["exit_code"], pod.state()["stopped_by"]) == (3, "pod stop")
    assert pod.log() == [("stdout", "F", "stopped")]


def test_stop(ocipod: Ocipod, work: Path) -> None:
    pod = Idle(ocipod, work)
    ocipod("stop", "--wait", "--time=1", pod.uuid).ok()
    assert pod.end() == {"code": 0, "reason": "", "clean": True}
    assert pod.state()["stopped_by"] == "pod stop"


def test_flavour_fly(ocipod: Ocipod, work: Path) -> None:
    pod = Idle(ocipod, work, "--flavor=fly")
    pod.do("echo fly")
    assert processes.until(lambda: pod.log() == [("stdout", "F", "fly")])
    pod.wait()
    ocipod("stop", "--wait", "--force", pod.uuid).ok()


def test_attaching(ocipod: Ocipod, work: Path) -> None:
    script = "while read -r line; do echo got $line; [ $line = end ] && exit 7; done; exit 9"
    pod = Idle(ocipod, work, "--stdin=stream", script=script)
    for word in (b"one", b"end"):
        pod.wait()
        client = ocipod.popen("attach", pod.uuid, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(word + b"\n")
        client.stdin.flush()
        assert client.stdout.readline() == b"got " + word + b"\n"
        assert word == b"end" or not is_asleep(pod.pid)
        if word == b"one":
            client.kill()
        assert client.wait(20) == (7 if word == b"end" else -signal.SIGKILL)
    assert pod.end()["code"] == 7


def test_a_terminal(ocipod: Ocipod, work: Path) -> None:
    script = "while read -r line; do echo got $line; done"
    streams = ("--stdin=tty", "--stdout=tty", "--stderr=tty")
    pod = Idle(ocipod, work, *streams, script=script)
    client = PtyCommand(ocipod.command("attach", pod.uuid), rows=33, columns=101)
    try:
        assert processes.until(client.terminal.is_raw)
        client.terminal.write("hello\r")
        client.terminal.read_until("got hello")
        client.terminal.write("\x10\x11")
        assert client.wait() == 0
    finally:
        client.close()
    pod.wait()
    ocipod("stop", "--wait", pod.uuid).ok()
    assert "got hello" in ocipod("logs", pod.uuid).out


def test_apps_come_and_go(ocipod: Ocipod, work: Path) -> None:
    image = busybox(work)
    ocipod("fetch", image).ok()
    words = ("app", "sandbox", "--detach", "--net=none")
    uuid = ocipod(*words, env=TIMEOUT).ok().out.strip()
    pid = int(ocipod.monitor(uuid)["pid"])

    def do(*words: str) -> str:
        assert processes.until(lambda: is_asleep(pid), 20)
        return ocipod(*words).ok().out

    before: list[str] = []
    for _ in range(2):
        for name in "ab":
            do("app", "add", uuid, image, f"--name={name}", *shell("echo up", "exec sleep 60"))
            do("app", "start", uuid, f"--app={name}")
        do("app", "stop", uuid, "--app=a")
        do("app", "start", uuid, "--app=a")
        status = do("app", "status", uuid, "--app=a")
        assert "state=running" in status
        assert "restarts=1" in status
        assert do("app", "exec", "--app=b", uuid, "--", "echo", "inside") == "inside\n"
        do("app", "rm", uuid, "--app=a")
        do("app", "stop", uuid, "--app=b")
        assert "exit_code=143" in do("app", "status", uuid, "--app=b")
        assert do("app", "list", "--no-legend", uuid).split() == ["b", "exited"]
        do("app", "rm", uuid, "--app=b")
        assert processes.until(lambda: is_asleep(pid), 20)
        assert descriptors(pid) == (before or descriptors(pid))
        before = descriptors(pid)
    do("stop", "--wait", uuid)


def test_the_foreground(ocipod: Ocipod, work: Path) -> None:
    fifos = [work / "v" / name for name in "01"]
    fifos[0].parent.mkdir()
    for fifo in fifos:
        os.mkfifo(fifo)
    script = shell("printf one-", "read x </v/0", "echo two", "echo err >&2", "read x </v/1")
    volume = f"--volume=v,kind=host,source={fifos[0].parent}"
    app = (busybox(work), "--name=a", "--mount=volume=v,target=/v", *script[:-1])
    words = ("run", "--net=none", volume, *app, f"{script[-1]}; exit 5")
    process = ocipod.popen(*words, env=TIMEOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for fifo in fifos:
        assert processes.until(lambda: is_asleep(process.pid), 20)
        fifo.write_text("go\n")  # it waits until the app reads
    out, err = process.communicate(timeout=20)
    ocipod.started.remove(process)
    ocipod.look()
    assert process.returncode == 5
    assert out.decode().partition("]: ")[2] == "one-two\n"
    assert err.decode().partition("]: ")[2] == "err\n"


def test_events_at_the_moment_of_going_to_sleep(ocipod: Ocipod, work: Path) -> None:
    """Signals are blocked when it decides: later events are found afterwards."""
    number = "i=$((i+1)); echo $i"
    script = f"i=0; while [ $i -lt 120 ]; do {number}; sleep 0.02; done; read x </v/go; exit 4"
    fault = "monitor.before-sleep:sleep=30,monitor.after-sleep:sleep=30"
    env = {"OCIPOD_IDLE_TIMEOUT": "0.005", "OCIPOD_FAULT": fault}
    volume = work / "v"
    volume.mkdir()
    os.mkfifo(volume / "go")
    words = ("--detach", "--net=none", f"--volume=v,kind=host,source={volume}", busybox(work))
    app = ("--name=a", "--mount=volume=v,target=/v", *shell(script))
    uuid = ocipod("run", *words, *app, env=env).ok().out.strip()
    pid = int(ocipod.monitor(uuid)["pid"])
    stacks = set()
    log = ocipod.path(uuid) / "logs" / "a.log"
    while b" 120\n" not in log.read_bytes():
        stacks.add(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[25])
        time.sleep(0.005)
    assert len(stacks) > 5, "each execution has its own"
    (volume / "go").write_text("end\n")
    ocipod.wait_for(uuid, "exited")
    found = entries(ocipod.path(uuid) / "logs" / "a.log")
    assert found == [("stdout", "F", str(i + 1)) for i in range(120)]
    assert ocipod.status(uuid)["app-a"] == "4"


def test_a_signal_at_the_moment_of_going_to_sleep(ocipod: Ocipod, work: Path) -> None:
    pod = Idle(ocipod, work, script="exec sleep 60", fault="monitor.before-sleep:stop")
    os.kill(pod.pid, signal.SIGTERM)
    os.kill(pod.pid, signal.SIGCONT)
    assert pod.end() == {"code": 0, "reason": "", "clean": True}
    assert pod.state()["stopped_by"] == "pod stop"


@pytest.mark.parametrize("point", ["asleep", "before-sleep", "after-sleep"])
def test_its_sudden_end(ocipod: Ocipod, work: Path, point: str) -> None:
    """The lock is not released while a process of the pod is alive."""
    fault = "" if point == "asleep" else f"monitor.{point}:stop"
    pod = Idle(ocipod, work, script="setsid sleep 100 & exec sleep 100", fault=fault)
    namespace = pid_namespace(int(ocipod.monitor(pod.uuid)["init_pid"]))
    path = ocipod.path(pod.uuid)
    assert len(living(pod.uuid, namespace)) > 2
    assert not is_free(path)
    if point == "after-sleep":
        os.kill(pod.pid, signal.SIGUSR1)
        assert processes.until(lambda: processes.state(pod.pid) == "T")
    os.kill(pod.pid, signal.SIGKILL)

    def is_over() -> bool:
        processes.reap_orphans()
        return is_free(path)

    assert processes.until(is_over, 20)
    assert living(pod.uuid, namespace) == []


def test_another_lock_holder(ocipod: Ocipod, work: Path) -> None:
    pod = Idle(ocipod, work)
    before = lock_holders(pod.pid)
    os.kill(before[0], signal.SIGKILL)
    assert processes.until(lambda: lock_holders(pod.pid) not in ([], before))
    pod.wait()
    pod.do("exit 2")
    assert pod.end()["code"] == 2


def test_it_does_not_sleep_when_the_pod_ends(ocipod: Ocipod, work: Path) -> None:
    """However long the last processes take: the resources are already released."""
    pod = Idle(ocipod, work)
    first = int(ocipod.monitor(pod.uuid)["init_pid"])
    (lock_holder,) = lock_holders(pod.pid)
    os.kill(lock_holder, signal.SIGSTOP)
    pod.do("exit")
    assert processes.until(lambda: not processes.alive(first))
    assert not processes.until(lambda: is_asleep(pod.pid), 0.5)
    os.kill(lock_holder, signal.SIGCONT)
    assert pod.end() == {"code": 0, "reason": "", "clean": True}


def test_it_cannot_go_on(ocipod: Ocipod, work: Path) -> None:
    """The pod exits with it, and nothing is left behind."""
    pod = Idle(ocipod, work)
    path = ocipod.path(pod.uuid)
    (path / "runtime-config").rename(path / "kept")
    namespace = pid_namespace(int(ocipod.monitor(pod.uuid)["init_pid"]))
    pod.do("echo hello")

    def is_over() -> bool:
        processes.reap_orphans()
        return is_free(path)

    assert processes.until(is_over, 20)
    assert living(pod.uuid, namespace) == []
    assert "runtime-config" in (path / "monitor.log").read_text()
    (path / "kept").rename(path / "runtime-config")


def test_a_sandbox_that_ends_with_its_app(ocipod: Ocipod, work: Path) -> None:
    """Its next run hibernates again."""
    image = busybox(work)
    ocipod("fetch", image).ok()
    words = ("app", "sandbox", "--detach", "--net=none", "--on-exit=halt")
    uuid = ocipod(*words, env=TIMEOUT).ok().out.strip()
    ocipod("app", "add", uuid, image, "--name=a", *shell("exec sleep 60")).ok()
    for _ in range(2):
        ocipod("app", "start", uuid, "--app=a").ok()
        pid = int(ocipod.monitor(uuid)["pid"])
        assert processes.until(lambda pid=pid: is_asleep(pid), 20)  # type: ignore[misc]
        record = ocipod.path(uuid) / "apps" / "a" / "state.json"
        os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)
        ocipod.wait_for(uuid, "exited")
        assert json.loads((ocipod.path(uuid) / "exit").read_text())["clean"]
        ocipod("run-prepared", "--detach", uuid, env=TIMEOUT).ok()
    ocipod("stop", "--wait", uuid).ok()
