from __future__ import annotations

import errno
import os
import resource
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
from ociruntime.base.foreground import KEPT, QUEUED, SignalQueue, wait_foreground
from tests.support.descriptors import open_descriptors


def spawn(script: str) -> int:
    return os.posix_spawn("/bin/sh", ["sh", "-c", script], os.environ, setsigmask=())


def ran(script: str) -> int:
    """Run a process like ``run``: signals are caught before it exists, and until the end."""
    signals = SignalQueue()
    return waited(spawn(script), signals)


def waited(pid: int, signals: SignalQueue | None = None) -> int:
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


def test_caller_that_ignores_its_children(start: Start) -> None:
    """The kernel reaps the children of such a process itself."""

    def work(_: int) -> int:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        status = ran("exit 9")
        return status if signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL else 1

    assert start(work).status() == 9


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
    signals = SignalQueue()
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
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    descriptors = open_descriptors()
    waited(spawn("exit 0"))
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert open_descriptors() == descriptors


def test_what_is_queued() -> None:
    signals = SignalQueue()
    try:
        signals.receive()
        assert signals.take() == []
        for number in QUEUED:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
            assert not signals.has_any((number,))
            signals.receive()  # at once: the kernel discards a CONT if a TSTP follows
            assert signals.has_any((signal.SIGSEGV, number))
        taken = signals.take()
        assert set(taken) == QUEUED
        assert len(taken) == len(QUEUED)
        assert not signals.has_any(QUEUED)
        assert signals.take() == []
        assert set(taken) >= KEPT
    finally:
        signals.release()


def test_more_signals_than_one_read() -> None:
    signals = SignalQueue()
    try:
        for _ in range(3 * 64):  # signals of this kind are not merged
            os.kill(os.getpid(), signal.SIGRTMIN + 3)
        signals.receive()
        assert signals.take() == [signal.SIGRTMIN + 3]
        with pytest.raises(BlockingIOError):
            os.read(signals.fd, 4096)
    finally:
        signals.release()


def test_pending_signals_are_discarded(start: Start) -> None:
    def work(_: int) -> int:
        signals = SignalQueue()
        os.kill(os.getpid(), signal.SIGTERM)
        signals.release()
        return 5

    assert start(work).status() == 5


def test_no_descriptor_for_signals(start: Start) -> None:
    """An error leaves no signal blocked."""

    def work(_: int) -> int:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
        with pytest.raises(HostError, match="signalfd: too many open files"):
            SignalQueue()
        return 0 if signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before else 1

    assert start(work).status() == 0


def test_failed_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal is restored, and signals are no longer blocked."""

    class FakeRelay:
        done: ClassVar[list[str]] = []

        def begin(self) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        def close(self) -> None:
            self.done.append("close")

    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with pytest.raises(HostError, match="wait for process 71: input/output"):
        wait_foreground(-1, 71, cast("Any", FakeRelay()))
    assert FakeRelay.done == ["close"]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


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
    signals = SignalQueue()
    threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGCHLD)).start()
    try:
        assert wait_foreground(pidfd, child, signals=signals) == 7
    finally:
        signals.release()
        os.waitpid(child, 0)
        os.close(pidfd)
