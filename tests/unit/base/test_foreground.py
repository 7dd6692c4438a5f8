from __future__ import annotations

import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from ociruntime.base import foreground
from ociruntime.base.errors import HostError, InternalError
from ociruntime.base.foreground import KEPT, UNTOUCHED, CaughtSignals, wait_foreground
from tests.support.descriptors import open_descriptors


def spawn(script: str) -> int:
    return os.posix_spawn("/bin/sh", ["sh", "-c", script], os.environ)


def ran(script: str) -> int:
    """Run a process like ``run``: signals are caught before it exists, and until the end."""
    signals = CaughtSignals()
    return waited(spawn(script), signals)


def waited(pid: int, signals: CaughtSignals | None = None) -> int:
    pidfd = os.pidfd_open(pid)
    try:
        return wait_foreground(pidfd, pid, signals=signals)
    finally:
        os.close(pidfd)


class Child:
    """A process that calls ``work`` in a separate session; ``ready`` waits for a byte from it."""

    def __init__(self, work: Callable[[int], int]) -> None:
        self._read, write = os.pipe()
        os.set_inheritable(write, True)
        self.pid = os.fork()
        if self.pid == 0:
            status = 99
            try:
                os.setsid()
                status = work(write)
            finally:
                os._exit(status)
        os.close(write)

    def ready(self) -> None:
        assert os.read(self._read, 1)

    def read(self, count: int) -> bytes:
        got = b""
        while len(got) < count and (part := os.read(self._read, 4096)):
            got += part
        return got

    def status(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self) -> None:
        """Kill the remaining processes of the session."""
        os.close(self._read)
        for entry in Path("/proc").glob("[0-9]*/stat"):
            try:
                session = int(entry.read_text().rsplit(")", 1)[1].split()[3])
                if session == self.pid:
                    os.kill(int(entry.parent.name), signal.SIGKILL)
            except OSError:
                pass
        try:
            os.waitpid(self.pid, 0)
        except OSError:
            pass


Start = Callable[[Callable[[int], int]], Child]


@pytest.fixture
def start() -> Iterator[Start]:
    children: list[Child] = []

    def start(work: Callable[[int], int]) -> Child:
        children.append(Child(work))
        return children[-1]

    yield start
    for child in children:
        child.close()


def test_exit_status() -> None:
    assert waited(spawn("exit 0")) == 0
    assert waited(spawn("exit 42")) == 42
    assert waited(spawn("kill -KILL $$")) == 137
    assert waited(spawn("kill -TERM $$")) == 143


def test_ended_before_it_is_waited_for() -> None:
    pid = spawn("exit 5")
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert waited(pid) == 5


def test_not_a_child() -> None:
    # The parent lives on: an orphan might come to the test process, if that is a subreaper.
    parent = subprocess.Popen(
        ["/bin/sh", "-c", "sleep 100 & echo $!; read -r _"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        pidfd = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        try:
            with pytest.raises(InternalError):
                wait_foreground(pidfd, pid)
        finally:
            os.close(pidfd)


def test_signals_are_handed_on(start: Start) -> None:
    def work(write: int) -> int:
        traps = "; ".join(
            f"trap 'echo {s} >/dev/fd/{write}' {s}" for s in ("HUP", "INT", "USR1", "CONT")
        )
        loop = f"echo >/dev/fd/{write}; while :; do sleep 0.02; done"
        return ran(f"{traps}; trap 'exit 3' TERM; {loop}")

    child = start(work)
    child.ready()
    for name in ("HUP", "INT", "USR1", "CONT"):
        os.kill(child.pid, signal.Signals[f"SIG{name}"])
    assert sorted(child.read(18).split()) == [b"CONT", b"HUP", b"INT", b"USR1"]
    os.kill(child.pid, signal.SIGTERM)
    assert child.status() == 3


def test_signals_that_concern_the_runtime_stay_here(start: Start) -> None:
    def work(write: int) -> int:
        traps = "; ".join(f"trap 'exit 1' {s}" for s in ("CHLD", "WINCH", "URG", "PIPE"))
        loop = f"trap 'exit 3' TERM; echo >/dev/fd/{write}; while :; do :; done"
        return ran(f"{traps}; {loop}")

    child = start(work)
    child.ready()
    for number in (signal.SIGCHLD, signal.SIGWINCH, signal.SIGURG, signal.SIGPIPE):
        os.kill(child.pid, number)
    time.sleep(0.1)
    os.kill(child.pid, signal.SIGTERM)
    assert child.status() == 3


def test_a_storm_of_signals_does_not_lose_the_end(start: Start) -> None:
    def work(write: int) -> int:
        return ran(f"trap '' USR1; trap 'exit 7' TERM; echo >/dev/fd/{write}; sleep 1000 & wait")

    child = start(work)
    child.ready()
    for _ in range(100_000):
        os.kill(child.pid, signal.SIGUSR1)
    os.kill(child.pid, signal.SIGTERM)
    for _ in range(1000):
        os.kill(child.pid, signal.SIGUSR1)
    assert child.status() == 7


def test_signals_that_come_before_the_wait_are_not_lost() -> None:
    signals = CaughtSignals()
    os.kill(os.getpid(), signal.SIGTERM)
    read, write = os.pipe()
    os.set_inheritable(write, True)
    pid = spawn(f"trap 'exit 4' TERM; echo >/dev/fd/{write}; while :; do sleep 0.01; done")
    os.close(write)
    assert os.read(read, 1)
    pidfd = os.pidfd_open(pid)
    assert wait_foreground(pidfd, pid, signals=signals) == 4
    os.kill(os.getpid(), signal.SIGTERM)  # still caught
    signals.release()
    for fd in (read, pidfd):
        os.close(fd)


def test_orphans_are_reaped(start: Start) -> None:
    def work(write: int) -> int:
        import ctypes

        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        pid = spawn(f"(sleep 0.01 & echo $! >/dev/fd/{write}); sleep 0.3")
        status = waited(pid)
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        return 50

    child = start(work)
    assert int(child.read(1))
    assert child.status() == 0


def test_everything_is_put_back() -> None:
    before = {n: signal.getsignal(n) for n in signal.valid_signals()}
    descriptors = open_descriptors()
    waited(spawn("exit 0"))
    assert {n: signal.getsignal(n) for n in signal.valid_signals()} == before
    assert open_descriptors() == descriptors


def test_what_is_caught() -> None:
    signals = CaughtSignals()
    try:
        for number in signal.valid_signals() - UNTOUCHED:
            os.kill(os.getpid(), number)
        taken = signals.take()
        assert set(taken) == {int(n) for n in signal.valid_signals() - UNTOUCHED} - {signal.SIGPIPE}
        assert signals.take() == []
        assert KEPT - {signal.SIGPIPE} <= set(taken)
    finally:
        signals.release()


def test_no_descriptor_for_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error leaves all signal handlers as they were."""

    def fail(flags: int) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("posix.pipe2", fail)
    with pytest.raises(HostError, match="signals: too many open files"):
        CaughtSignals()
    assert signal.getsignal(signal.SIGTERM) == before


def test_wakeup_pipe() -> None:
    """It is emptied, however full it is, and may be empty before."""
    signals = CaughtSignals()
    try:
        signals.clear_wakeup()
        os.write(signals._write, bytes(4096 + 7))
        signals.clear_wakeup()
        with pytest.raises(BlockingIOError):
            os.read(signals.fd, 1)
        os.write(signals._write, bytes(4096))
        signals.clear_wakeup()
        with pytest.raises(BlockingIOError):
            os.read(signals.fd, 1)
    finally:
        signals.release()


def test_failed_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal is restored, and signals are no longer caught."""

    class FakeRelay:
        done: ClassVar[list[str]] = []

        def begin(self) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        def close(self) -> None:
            self.done.append("close")

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(HostError, match="wait for process 71: input/output"):
        wait_foreground(-1, 71, cast("Any", FakeRelay()))
    assert FakeRelay.done == ["close"]
    assert signal.getsignal(signal.SIGTERM) == before


class Terminal:
    """A relay that records its calls."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def resize(self) -> None:
        self.told.append("resize")

    def resume(self) -> None:
        self.told.append("resume")


@pytest.mark.parametrize(
    ("number", "told", "sent"),
    [
        (signal.SIGWINCH, ["resize"], False),
        (signal.SIGCONT, ["resume"], True),
        (signal.SIGTERM, [], True),
        (signal.SIGCHLD, [], False),
    ],
)
def test_reaction(
    monkeypatch: pytest.MonkeyPatch, number: int, told: list[str], sent: bool
) -> None:
    """After a stop the terminal is set up again; a signal to an exited init is lost."""
    signals: list[int] = []

    def send(pidfd: int, signal: int) -> None:
        signals.append(signal)
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))

    monkeypatch.setattr("_signal.pidfd_send_signal", send)
    terminal = Terminal()
    foreground._react(number, -1, cast("Any", terminal))
    foreground._react(number, -1, None)
    assert terminal.told == told
    assert signals == [number] * 2 * sent


def test_service_manager_that_no_longer_listens() -> None:
    """The container keeps running."""

    class Gone:
        def forward(self) -> None:
            raise HostError("send", OSError(errno.ECONNREFUSED, "Connection refused"))

    foreground._notify(cast("Any", Gone()))


def test_init_that_its_tracer_reaps_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pidfd is readable, but the status comes later, with SIGCHLD."""
    child = spawn("exit 7")
    statuses = [None, 7 << 8]
    monkeypatch.setattr(foreground, "_reap", lambda pid: statuses.pop(0))
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    pidfd = os.pidfd_open(child)
    signals = CaughtSignals()
    threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGCHLD)).start()
    try:
        assert wait_foreground(pidfd, child, signals=signals) == 7
    finally:
        signals.release()
        os.waitpid(child, 0)
        os.close(pidfd)
