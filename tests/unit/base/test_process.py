"""Signals that end a command, and start times in time namespaces."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ociruntime.base import process
from ociruntime.base.errors import HostError
from ociruntime.base.files import read_file
from ociruntime.base.process import open_process, send_signal, start_time
from tests.support import project

ENDING = """
import os, signal
from ociruntime.base.process import end_on_signals

end_on_signals()
try:
    os.kill(os.getpid(), signal.SIGTERM)
except KeyboardInterrupt:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(os.getpid(), number)
    os.execv("/bin/sh", ["sh", "-c", "kill -HUP $$"])
"""


def python(script: str, *prefix: str) -> subprocess.CompletedProcess[str]:
    command = [*prefix, sys.executable, "-c", script]
    return subprocess.run(command, cwd=project.ROOT, capture_output=True, text=True, check=False)


def test_only_the_first_signal_interrupts() -> None:
    """Later ones would interrupt the undoing; a program that is started gets them all."""
    done = python(ENDING)
    assert done.stderr == ""
    assert done.returncode == -1  # SIGHUP, in the shell


@pytest.mark.parametrize("seconds", [100_000, -50])
def test_start_time_in_a_time_namespace(seconds: int) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare(1)")
    offsets = ("unshare", "--time", "--fork", f"--boottime={seconds}", "--")
    script = f"from ociruntime.base.process import start_time\nprint(start_time({os.getpid()}))"
    done = python(script, *offsets)
    if done.returncode != 0:
        pytest.skip(f"no time namespace here: {done.stderr}")
    assert int(done.stdout) == start_time(os.getpid())


def os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise os_error(number)

    return fail


def test_removed_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posix.getcwd", failing(errno.ENOENT))
    with pytest.raises(HostError, match="working directory: no such file"):
        process.working_directory()


@pytest.mark.parametrize(
    ("text", "ticks"),
    [
        (b"monotonic 5 0\nboottime 7 500000000\n", 7.5),
        (b"monotonic 5 0\n", 0),
        (None, 0),
    ],
)
def test_offset_of_the_boot_time(
    monkeypatch: pytest.MonkeyPatch, text: bytes | None, ticks: float
) -> None:
    """Without time namespaces, there is no offset."""
    read = failing(errno.ENOENT) if text is None else lambda path: text
    monkeypatch.setattr(process, "read_file", read)
    assert process._boot_offset() == ticks * process.TICKS


def test_processes_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_process(1 << 22, 0) == -1
    monkeypatch.setattr("posix.pidfd_open", failing(errno.EMFILE))
    with pytest.raises(HostError, match="open process 71: too many open files"):
        open_process(71, 0)


def test_refused_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error, unless the process has exited."""
    monkeypatch.setattr("_signal.pidfd_send_signal", failing(errno.ESRCH))
    assert not send_signal(5, 9, 71)
    monkeypatch.setattr("_signal.pidfd_send_signal", failing(errno.EPERM))
    with pytest.raises(HostError, match="signal 9 to process 71: operation not permitted"):
        send_signal(5, 9, 71)


def test_first_process_that_cannot_be_held() -> None:
    """Later processes wait for descriptors; without one for the first, nothing can be done."""

    def opener(pid: int) -> int:
        if pid == 3:
            raise HostError("open", os_error(errno.EMFILE))
        return os.dup(0) if pid != 2 else -1

    held, left = process._hold([1, 2, 4, 3, 5], opener)
    assert list(held) == [1]
    assert left == [3, 5, 4]
    for fd in held.values():
        os.close(fd)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(HostError):
        process._hold([2, 3], opener)
    assert os.listdir("/proc/self/fd") == before


def test_status_of_a_child() -> None:
    """None while it runs, and once it has been reaped."""
    child = subprocess.Popen(["sleep", "60"])
    pidfd = os.pidfd_open(child.pid)
    assert process.end_status(pidfd) is None
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process.end_status(pidfd) == 128 + 9
    assert process.end_status(pidfd) is None
    child.wait()
    os.close(pidfd)


HELD = """
import os, signal
from ociruntime.base import process
from ociruntime.base.process import end_on_signals, without_interruption

signal.signal(signal.SIGINT, {handler})
end_on_signals()
real, done = process._signal.pthread_sigmask, []

def late(how, numbers):
    before = real(how, numbers)
    if how == signal.SIG_BLOCK and numbers and not done:
        done.append("signal")
        raise KeyboardInterrupt
    return before

process._signal.pthread_sigmask = late
without_interruption(done.append, "work")
print(done, signal.getsignal(signal.SIGINT) == signal.SIG_IGN, real(signal.SIG_BLOCK, ()))
"""


@pytest.mark.parametrize(
    ("handler", "ignored"), [("signal.SIG_IGN", True), ("signal.SIG_DFL", False)]
)
def test_signal_just_before_it_is_blocked(handler: str, ignored: bool) -> None:
    """The work is done all the same, and no signal stays blocked; an ignored SIGINT stays so."""
    done = python(HELD.format(handler=handler))
    assert done.stderr == ""
    assert done.stdout == f"['signal', 'work'] {ignored} set()\n"


IGNORED = """
import signal
from ociruntime.base.process import end_at_once_on_signals, heed_ignored_signals

signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGINT, {handler})
heed_ignored_signals()
end_at_once_on_signals()
names = ("SIGHUP", "SIGINT", "SIGPIPE")
print([int(signal.getsignal(getattr(signal, name))) for name in names if name != "SIGINT"])
print(signal.getsignal(signal.SIGINT) == signal.SIG_DFL)
"""


@pytest.mark.parametrize(
    ("handler", "default"), [("signal.default_int_handler", True), ("lambda *_: None", False)]
)
def test_ignored_signals(handler: str, default: bool) -> None:
    """Programs that we start must be able to end; a handler of ours is kept."""
    done = python(IGNORED.format(handler=handler))
    assert done.stderr == ""
    assert done.stdout == f"[0, 1]\n{default}\n"


def test_process_that_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL is pending until the process runs again."""
    pid = os.getpid()
    assert not process.is_dying(pid)
    status = "SigQ:\t1/100\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000100\n"
    real = read_file

    def read(path: str) -> bytes:
        return status.encode() if path == f"/proc/{pid}/status" else real(path)

    monkeypatch.setattr(process, "read_file", read)
    assert process.is_dying(pid)


@pytest.mark.parametrize("error", [errno.ESRCH, errno.ENOENT])
def test_a_process_that_exits_while_it_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """Its status can no longer be opened, or no longer be read: it is over."""
    real = read_file

    def read(path: str) -> bytes:
        if path.endswith("/status"):
            raise OSError(error, os.strerror(error))
        return real(path)

    monkeypatch.setattr(process, "read_file", read)
    assert process.is_dying(os.getpid())
