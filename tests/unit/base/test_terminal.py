"""The caller's terminal: found, set to raw mode, and restored."""

from __future__ import annotations

import fcntl
import os
import posix
import pty
import struct
import termios
from collections.abc import Iterator

import pytest

from ociruntime.base.terminal import Terminal, find_terminal


@pytest.fixture
def pair() -> Iterator[tuple[int, int]]:
    master, slave = pty.openpty()
    yield master, slave
    for fd in (master, slave):
        try:
            os.close(fd)
        except OSError:
            continue


def test_controlling_terminal(pair: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose streams are redirected still has one, which `restore` closes."""
    real, opened = posix.open, list[str]()

    def fake_open(path: str, flags: int) -> int:
        opened.append(path)
        return real(os.ttyname(pair[1]), flags)

    monkeypatch.setattr(posix, "isatty", lambda fd: False)
    monkeypatch.setattr(posix, "open", fake_open)
    terminal = find_terminal()
    assert opened == ["/dev/tty"]
    assert os.ttyname(terminal.fd) == os.ttyname(pair[1])
    terminal.restore()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(terminal.fd)
    terminal.restore()


def test_raw_mode(pair: tuple[int, int]) -> None:
    """Set again after a stop, it still restores the modes of the first time."""
    _, slave = pair
    before = termios.tcgetattr(slave)
    terminal = Terminal(slave, owned=False)
    terminal.restore()
    terminal.make_raw()
    terminal.make_raw()
    assert not termios.tcgetattr(slave)[3] & termios.ECHO
    terminal.restore()
    assert termios.tcgetattr(slave) == before
    os.fstat(slave)


def test_terminal_that_is_gone(pair: tuple[int, int]) -> None:
    """Neither its modes nor its size matter any more."""
    _, slave = pair
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 7, 8, 0, 0))
    terminal = Terminal(slave, owned=False)
    other, its_slave = pty.openpty()
    terminal.give_size_to(other)
    assert os.get_terminal_size(its_slave) == (8, 7)
    terminal.make_raw()
    os.close(slave)
    terminal.restore()
    terminal.give_size_to(other)
    os.close(other)
    os.close(its_slave)
