from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
import tty
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from ociruntime.base import terminal_relay
from ociruntime.base.errors import ConfigError
from ociruntime.base.foreground import wait_foreground
from ociruntime.base.terminal import find_terminal
from ociruntime.base.terminal_relay import Relay

Attributes = list[object]


class Host:
    """A user's terminal with a runtime in it, and a program in a second terminal."""

    def __init__(self, script: str, prepare: Callable[[], None] | None = None) -> None:
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            status = 99
            try:
                if prepare is not None:
                    prepare()
                status = foreground(script)
            finally:
                os._exit(status)
        self.seen = b""

    def until(self, text: bytes) -> None:
        """Read the output on the user's terminal until it contains ``text``."""
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], 20)
            assert ready, self.seen
            self.seen += os.read(self.master, 65536)

    def type(self, text: bytes) -> None:
        os.write(self.master, text)

    def resize(self, rows: int, columns: int) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def attributes(self) -> Attributes:
        return termios.tcgetattr(self.master)

    def status(self) -> int:
        """Return the exit status; reads the remaining output, and the terminal may be gone."""
        while True:
            try:
                if not (part := os.read(self.master, 65536)):
                    break
            except OSError:
                break
            self.seen += part
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def foreground(script: str) -> int:
    """Do what ``run`` does: start a program in its own terminal, and relay to it."""
    found = find_terminal()
    master, slave = os.openpty()
    pid = os.fork()
    if pid == 0:
        os.close(master)
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for fd in (0, 1, 2):
            os.dup2(slave, fd)
        os.execv("/bin/sh", ["sh", "-c", script])
    os.close(slave)
    return wait_foreground(os.pidfd_open(pid), pid, Relay(master, found))


@pytest.fixture
def hosts() -> Iterator[Callable[..., Host]]:
    made: list[Host] = []

    def make(script: str, prepare: Callable[[], None] | None = None) -> Host:
        made.append(Host(script, prepare))
        return made[-1]

    yield make
    for host in made:
        os.close(host.master)
        try:
            os.kill(host.pid, signal.SIGKILL)
            os.waitpid(host.pid, 0)
        except OSError:
            pass


def test_both_directions_and_the_status(hosts: Callable[..., Host]) -> None:
    host = hosts("read line; echo got:$line; exit 6")
    host.type(b"hello\r")
    host.until(b"got:hello\r\n")
    assert host.status() == 6


def test_it_is_a_terminal_and_keys_go_through(hosts: Callable[..., Host]) -> None:
    host = hosts(
        "test -t 0 && test -t 1 && test -t 2 || exit 1; trap 'exit 9' INT;"
        " echo up; while :; do sleep 0.02; done"
    )
    host.until(b"up")
    host.type(b"\x03")  # the container's terminal makes a signal of it, not the host's
    assert host.status() == 9


def test_output_up_to_the_last_byte(hosts: Callable[..., Host]) -> None:
    count = 300_000
    host = hosts(f"head -c {count} /dev/zero | tr '\\0' x; printf END")
    assert host.status() == 0
    assert host.seen.count(b"x") == count
    assert host.seen.endswith(b"END")


def test_much_input_against_a_slow_reader(hosts: Callable[..., Host]) -> None:
    count = 200_000
    host = hosts(f"stty raw -echo; echo up; sleep 0.3; head -c {count} | cksum; exit 0")
    host.until(b"up")
    sent = 0
    os.set_blocking(host.master, False)
    while sent < count:
        _, ready, _ = select.select([], [host.master], [], 20)
        assert ready
        sent += os.write(host.master, b"y" * min(4096, count - sent))
    os.set_blocking(host.master, True)
    host.until(b" 200000")
    assert host.status() == 0


def test_window_size_at_first_and_later(hosts: Callable[..., Host]) -> None:
    read, write = os.pipe()
    host = hosts(
        "read x; stty size; trap 'stty size; exit 0' WINCH; echo set; while :; do sleep .02; done",
        lambda: os.read(read, 1) and None,
    )
    host.resize(33, 101)
    os.write(write, b"x")
    host.type(b"\r")
    host.until(b"33 101")
    host.until(b"set")
    host.resize(44, 90)
    host.until(b"44 90")
    assert host.status() == 0
    os.close(read)
    os.close(write)


def is_raw(attributes: Attributes) -> bool:
    lflag = attributes[3]
    assert isinstance(lflag, int)
    return not lflag & (termios.ECHO | termios.ICANON | termios.ISIG)


@pytest.mark.parametrize("end", ["exit 0", "kill -KILL $$"])
def test_raw_and_back(hosts: Callable[..., Host], end: str) -> None:
    host = hosts(f"echo up; read x; {end}")
    slave_kept = os.open(
        os.ptsname(host.master) if hasattr(os, "ptsname") else pts(host), os.O_RDWR | os.O_NOCTTY
    )
    try:
        host.until(b"up")
        assert is_raw(host.attributes())
        host.type(b"\r")
        _, status = os.waitpid(host.pid, 0)
        assert os.waitstatus_to_exitcode(status) == (0 if end == "exit 0" else 137)
        assert not is_raw(host.attributes())
    finally:
        os.close(slave_kept)


def pts(host: Host) -> str:
    number = struct.unpack("I", fcntl.ioctl(host.master, 0x80045430, bytes(4)))[0]  # TIOCGPTN
    return f"/dev/pts/{number}"


def test_a_terminal_that_the_program_closed_costs_nothing(hosts: Callable[..., Host]) -> None:
    host = hosts("echo up; exec <&- >&- 2>&-; sleep 0.6")
    host.until(b"up")
    time.sleep(0.4)
    ticks = Path(f"/proc/{host.pid}/stat").read_text().rsplit(")", 1)[1].split()
    switches = int(ticks[11]) + int(ticks[12])
    assert switches <= 15  # of 40: a busy loop would have taken them all
    assert host.status() == 0


def test_streams_of_the_host_stay_blocking(hosts: Callable[..., Host]) -> None:
    host = hosts("echo up; read x")
    keep = os.open(pts(host), os.O_RDWR | os.O_NOCTTY)
    host.until(b"up")
    for fd in (0, 1, 2):
        info = Path(f"/proc/{host.pid}/fdinfo/{fd}").read_text()
        flags = int(next(x for x in info.splitlines() if x.startswith("flags")).split()[1], 8)
        assert not flags & os.O_NONBLOCK
    host.type(b"\r")
    os.close(keep)
    assert host.status() == 0


def test_stdin_that_ends_and_stdout_that_nobody_reads(hosts: Callable[..., Host]) -> None:
    def redirect() -> None:
        null = os.open("/dev/null", os.O_RDONLY)
        read, write = os.pipe()
        os.close(read)
        os.dup2(null, 0)
        os.dup2(write, 1)

    host = hosts("head -c 100000 /dev/zero; exit 8", redirect)
    assert host.status() == 8


def without_terminal() -> int:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    try:
        find_terminal()
    except ConfigError as error:
        return 0 if str(error).startswith("process.terminal") else 2
    return 1


def test_no_terminal_at_all() -> None:
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = without_terminal()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_which_stream_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def isatty(fd: int) -> bool:
        asked.append(fd)
        return fd == 0

    monkeypatch.setattr("posix.isatty", isatty)
    assert find_terminal().fd == 0
    assert asked == [2, 1, 0]


class Ends:
    """A relay between pipes and a pty; ``far`` is the container's end of the pty."""

    def __init__(self) -> None:
        master, self.far = pty.openpty()
        tty.setraw(self.far)
        self.stdin, self.typed = os.pipe()
        self.shown, self.stdout = os.pipe()
        self.terminal = FakeTerminal()
        self.relay = Relay(master, cast("Any", self.terminal), self.stdin, self.stdout)
        self.master = master

    def close(self) -> None:
        self.relay.close()
        for fd in (self.far, self.stdin, self.typed, self.shown, self.stdout):
            try:
                os.close(fd)
            except OSError:
                continue


class FakeTerminal:
    """The caller's terminal, which records what the relay does with it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def make_raw(self, *, keep_output: bool) -> None:
        self.done.append(f"raw {keep_output}")

    def give_size_to(self, master: int) -> None:
        self.done.append("size")

    def restore(self) -> None:
        self.done.append("restore")


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


def test_continued_after_a_stop(ends: Ends) -> None:
    """The shell may have changed modes and size."""
    ends.terminal.done.clear()
    ends.relay.resume()
    assert ends.terminal.done == ["raw True", "size"]


def test_input(ends: Ends) -> None:
    """The input ends when its writer closes it, not when there is nothing to read."""
    ends.relay._read_input()
    assert not ends.relay._input_ended
    os.write(ends.typed, b"typed")
    ends.relay._read_input()
    assert os.read(ends.far, 100) == b"typed"
    os.close(ends.typed)
    ends.relay._read_input()
    assert ends.relay._input_ended


def test_input_that_fails(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr("posix.read", fail)
        ends.relay._read_input()
    assert ends.relay._input_ended


@pytest.mark.parametrize(("number", "kept"), [(errno.EAGAIN, b"typed"), (errno.EIO, b"")])
def test_program_that_does_not_read(
    ends: Ends, monkeypatch: pytest.MonkeyPatch, number: int, kept: bytes
) -> None:
    """Input waits for it, unless the terminal has gone."""

    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    os.write(ends.typed, b"typed")
    with monkeypatch.context() as patch:
        patch.setattr("posix.write", fail)
        ends.relay._read_input()
    assert ends.relay._input == kept
    assert not ends.relay._input_ended


def test_output(ends: Ends) -> None:
    """A full buffer is written before more is read."""
    assert not ends.relay._read_output()
    assert not ends.relay._hung_up
    os.write(ends.far, b"second")
    ends.relay._output = b"first "
    assert ends.relay._read_output()
    assert ends.relay._output == b"first "
    ends.relay.finish()
    assert os.read(ends.shown, 100) == b"first second"


def test_last_output_that_nobody_reads(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_relay, "DRAIN_LIMIT", 1)
    os.write(ends.stdout, bytes(fcntl.fcntl(ends.stdout, fcntl.F_GETPIPE_SZ)))
    ends.relay._output = b"lost"
    ends.relay.finish()
    assert ends.relay._output == b"lost"


def test_stream_that_cannot_be_opened_again(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed descriptor, and a pipe of another user, are used as they are."""

    def fail(*_: object) -> int:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    assert ends.relay._without_blocking(1 << 20, os.O_RDONLY) == 1 << 20
    monkeypatch.setattr("posix.open", fail)
    assert ends.relay._without_blocking(ends.stdin, os.O_RDONLY) == ends.stdin
