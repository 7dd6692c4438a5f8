"""The user's terminal of a pod run with --interactive."""

from __future__ import annotations

import os
import pty
import signal
import termios
from collections.abc import Iterator

import pytest

from ociruntime.base.terminal import set_window_size, window_size
from ociruntime.pods.loop.event_loop import READABLE, Loop
from ociruntime.pods.monitor.app_streams import AppStreams
from ociruntime.pods.monitor.foreground_output import BUFFER_LIMIT, ForegroundCopy, LocalTerminal
from tests.unit.pods.event_loops import run_for


@pytest.fixture
def loop() -> Iterator[Loop]:
    one = Loop()
    yield one
    one.close()


@pytest.fixture
def user() -> Iterator[int]:
    """The user's end of the terminal that is our stdin; pytest keeps stdout."""
    master, terminal = pty.openpty()
    saved = os.dup(0)
    os.dup2(terminal, 0)
    os.close(terminal)
    os.set_blocking(master, False)
    set_window_size(0, 24, 80)
    yield master
    os.dup2(saved, 0)
    os.close(saved)
    os.close(master)


@pytest.fixture
def app(loop: Loop) -> Iterator[tuple[AppStreams, int]]:
    """The streams of an app with a terminal, and the app's end of it."""
    master, terminal = pty.openpty()
    modes = termios.tcgetattr(terminal)
    modes[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    termios.tcsetattr(terminal, termios.TCSANOW, modes)
    os.set_blocking(terminal, False)
    streams = AppStreams(loop)
    streams.close_app_ends()
    streams.use_terminal(master)
    yield streams, terminal
    streams.close()
    os.close(terminal)


def is_raw() -> bool:
    return not termios.tcgetattr(0)[3] & termios.ICANON


def test_input_output_and_size(loop: Loop, user: int, app: tuple[AppStreams, int]) -> None:
    streams, inside = app
    terminal = LocalTerminal(loop)
    terminal._output.close()
    terminal._output = ForegroundCopy(loop, 0)
    terminal.signal(signal.SIGWINCH)  # no app yet
    terminal.connect(streams)
    assert is_raw()
    assert window_size(inside) == (24, 80)
    os.write(user, b"\x03typed")
    run_for(loop, 0.05)
    assert os.read(inside, 100) == b"\x03typed"
    terminal.write(b"shown")
    assert terminal.is_empty
    assert os.read(user, 100) == b"shown"
    terminal.close()
    assert not is_raw()


def test_signals(loop: Loop, user: int, app: tuple[AppStreams, int]) -> None:
    """After SIGCONT, the shell has set its own mode; other signals change nothing."""
    streams, inside = app
    terminal = LocalTerminal(loop)
    terminal.connect(streams)
    set_window_size(user, 50, 132)
    terminal.signal(signal.SIGTERM)
    assert window_size(inside) == (24, 80)
    terminal.signal(signal.SIGWINCH)
    assert window_size(inside) == (50, 132)
    modes = termios.tcgetattr(0)
    modes[3] |= termios.ICANON
    termios.tcsetattr(0, termios.TCSANOW, modes)
    terminal.signal(signal.SIGCONT)
    assert is_raw()
    terminal.close()
    terminal.signal(signal.SIGCONT)
    assert not is_raw()


def test_a_terminal_that_hangs_up(loop: Loop, user: int, app: tuple[AppStreams, int]) -> None:
    """Reading always fails with EIO: it is no longer watched."""
    streams, _ = app
    terminal = LocalTerminal(loop)
    terminal.connect(streams)
    terminal._read(READABLE)  # nothing typed: EAGAIN
    assert terminal._input in loop.descriptors()
    other, end = os.pipe()
    os.close(end)
    os.set_blocking(other, False)
    os.dup2(other, terminal._input)
    os.close(other)
    terminal._read(READABLE)
    assert terminal._input not in loop.descriptors()
    terminal.close()
    del user


def test_output_that_is_not_read(loop: Loop) -> None:
    """Output beyond the limit is dropped and counted; all of it once the reader is gone."""
    reader, writer = os.pipe()
    copy = ForegroundCopy(loop, writer)
    copy.write_bare(bytes(BUFFER_LIMIT + (1 << 20)))
    assert not copy.is_empty
    copy.write_bare(b"dropped")
    copy.write("a: ", b"dropped, too")
    assert copy.snapshot() == ("", 19)
    os.close(reader)
    copy._flush()
    assert copy.snapshot() == ("", 19)
    copy.write_bare(b"gone")
    copy.write("a: ", b"gone")
    assert copy._pending == b""
    copy.close()
    os.close(writer)
