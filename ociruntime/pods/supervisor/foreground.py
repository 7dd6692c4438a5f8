"""A foreground pod: its output, prefixed by app names, and the terminal of ``--interactive``."""

from __future__ import annotations

import os
import signal
import socket
import stat
from collections.abc import Callable

from ociruntime.base.terminal import Terminal
from ociruntime.pods.loop.event_loop import READABLE, WRITABLE, Loop
from ociruntime.pods.supervisor.app_streams import AppStreams

CHUNK = 4096


class LocalTerminal:
    """Between ``connect`` and ``close``, the terminal is in raw mode and keys go to the app."""

    __slots__ = ("_input", "_loop", "_output", "_streams", "_terminal")

    def __init__(self, loop: Loop) -> None:
        """Open standard input, which must be a terminal.  Raises OSError."""
        self._loop = loop
        self._terminal = Terminal(0, owned=False)
        self._output = ForegroundCopy(loop, 1)
        self._streams: AppStreams | None = None
        # Reopen it: O_NONBLOCK on the shared description would affect the caller's shell.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        self._input = os.open("/proc/self/fd/0", flags)

    def connect(self, streams: AppStreams) -> None:
        """Connect to the app's terminal."""
        self._streams = streams
        self._terminal.make_raw()
        streams.on_room.append(self._watch)
        self.resize()
        self._watch()

    def _watch(self) -> None:
        self._loop.watch(self._input, READABLE, self._read)

    def _read(self, events: int) -> None:
        del events
        try:
            data = os.read(self._input, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or self._streams is None or not self._streams.put(data):
            self._loop.forget(self._input)

    def write(self, data: bytes) -> None:
        """Write the app's output to the terminal."""
        self._output.write_bare(data)

    @property
    def is_empty(self) -> bool:
        """Return whether all output has been written."""
        return self._output.is_empty

    def signal(self, number: int) -> None:
        """Handle SIGWINCH (new size) and SIGCONT (raw mode again)."""
        if self._streams is None:
            return
        if number == signal.SIGCONT:
            self._terminal.make_raw()
        if number in (signal.SIGCONT, signal.SIGWINCH):
            self.resize()

    def resize(self) -> None:
        """Set the size of the app's terminal to ours."""
        if self._streams is not None and self._streams.has_terminal:
            self._terminal.give_size_to(self._streams.terminal)

    def close(self) -> None:
        """Disconnect from the app and restore the terminal's mode."""
        self._streams = None
        self._loop.forget(self._input)
        os.close(self._input)
        self._output.close()
        self._terminal.restore()


HELD = 1 << 20  # bytes to buffer for a slow reader before output is dropped


class ForegroundCopy:
    """A writer of whole lines to ``fd``; another app's output ends an unfinished line."""

    __slots__ = (
        *("_dropped", "_fd", "_loop", "_open_line", "_owned", "_pending", "_put"),
        "_unwanted",
    )

    def __init__(self, loop: Loop, fd: int) -> None:
        self._loop = loop
        self._fd, self._owned = _without_blocking(fd)
        self._put: Callable[[int, bytes], int] = _send if _is_socket(fd) else os.write
        self._pending = b""
        self._open_line = ""  # prefix of the line that is not finished yet
        self._dropped = 0
        self._unwanted = False

    def write(self, prefix: str, data: bytes) -> None:
        """Write a chunk of output, with ``prefix`` before each line."""
        if self._unwanted or not data:
            return
        if len(self._pending) > HELD:
            self._dropped += len(data)
            return
        text = b""
        if self._open_line and self._open_line != prefix:
            text = b"\n"
            self._open_line = ""
        mark = prefix.encode()
        body = data if data[-1:] != b"\n" else data[:-1]
        text += (b"" if self._open_line else mark) + body.replace(b"\n", b"\n" + mark)
        if body is not data:
            text += b"\n"
        self._open_line = prefix if body is data else ""
        if self._dropped and not self._pending:
            text = f"[{self._dropped} bytes dropped]\n".encode() + text
            self._dropped = 0
        self._pending += text
        self._flush()

    def write_bare(self, data: bytes) -> None:
        """Write a chunk of output unchanged."""
        if self._unwanted:
            return
        if len(self._pending) > HELD:
            self._dropped += len(data)
            return
        self._pending += data
        self._flush()

    def _flush(self) -> None:
        try:
            while self._pending:
                self._pending = self._pending[self._put(self._fd, self._pending) :]
        except BlockingIOError:
            self._loop.watch(self._fd, WRITABLE, lambda _: self._flush())
            return
        except OSError:
            self._unwanted = True  # EPIPE and the like: the reader is gone
            self._pending = b""
        self._loop.forget(self._fd)

    @property
    def is_empty(self) -> bool:
        return not self._pending

    def snapshot(self) -> tuple[str, int]:
        """Return a snapshot; only valid while the copy is empty."""
        return self._open_line, self._dropped

    def restore(self, snapshot: tuple[str, int]) -> None:
        """Restore from a snapshot."""
        self._open_line, self._dropped = snapshot

    def close(self) -> None:
        """Stop writing."""
        self._loop.forget(self._fd)
        if self._owned:
            os.close(self._fd)


def _without_blocking(fd: int) -> tuple[int, bool]:
    """Reopen a pipe or terminal non-blocking: other users of its description must not be."""
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and os.isatty(fd)):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(f"/proc/self/fd/{fd}", flags), True
    except OSError:
        pass  # closed, or owned by another user: use it as it is
    return fd, False


def _is_socket(fd: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False  # closed: write(2) will report it


def _send(fd: int, data: bytes) -> int:
    """Write without blocking; a socket cannot be reopened, so send with MSG_DONTWAIT."""
    sock = socket.socket(fileno=fd)
    try:
        return sock.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    finally:
        sock.detach()  # the descriptor belongs to our caller
