from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ociruntime.base.errors import InternalError
from ociruntime.base.foreground import KEPT, UNTOUCHED, CaughtSignals, wait_foreground
from tests.support.descriptors import open_descriptors


def spawn(script: str) -> int:
    return os.posix_spawn("/bin/sh", ["sh", "-c", script], os.environ)


def ran(script: str) -> int:
    """Run a process like ``run``: signals are caught before it exists, and ever after."""
    signals = CaughtSignals()
    return waited(spawn(script), signals)


def waited(pid: int, signals: CaughtSignals | None = None) -> int:
    pidfd = os.pidfd_open(pid)
    try:
        return wait_foreground(pidfd, pid, signals=signals)
    finally:
        os.close(pidfd)


class Child:
    """``work`` in a session of its own; ``ready`` by a byte that it writes to a pipe."""

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
