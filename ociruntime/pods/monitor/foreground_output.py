"""Write the output of a pod in the foreground, and relay the user's terminal (--interactive)."""

from __future__ import annotations

import os
import signal
import socket
import stat
from collections.abc import Callable

from ociruntime.base.terminal import Terminal
from ociruntime.pods.loop.event_loop import READABLE, WRITABLE, Loop
from ociruntime.pods.monitor.app_streams import AppStreams

CHUNK = 4096


class LocalTerminal:
    """The user's terminal for a pod run with --interactive, relayed to the app's terminal.

    From ``connect`` to ``close``, the terminal is in raw mode, and its input goes to the app.
    """

    __slots__ = ("_input", "_loop", "_output", "_streams", "_terminal")

    def __init__(self, loop: Loop) -> None:
        """Reopen standard input, which must be a terminal, in non-blocking mode.

        Raises OSError if it is not a terminal or cannot be reopened.
        """
        self._loop = loop
        self._terminal = Terminal(0, owned=False)
        self._output = ForegroundCopy(loop, 1)
        self._streams: AppStreams | None = None
        # Reopen the terminal: O_NONBLOCK on the shared open file would affect the caller's shell.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        self._input = os.open("/proc/self/fd/0", flags)

    def connect(self, streams: AppStreams) -> None:
        """Set raw mode, and start copying the terminal's input and size to the app's terminal.

        ``streams`` are the app's streams.
        """
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
        """Write ``data``, output of the app, to the terminal; drop it if too much is buffered."""
        self._output.write_bare(data)

    @property
    def is_empty(self) -> bool:
        """Return whether all output has been written to the terminal."""
        return self._output.is_empty

    def signal(self, number: int) -> None:
        """Handle SIGWINCH or SIGCONT; ignore any other signal ``number``.

        On both signals, the terminal's size is copied to the app's terminal.  On SIGCONT, raw mode
        is set again, too.
        """
        if self._streams is None:
            return
        if number == signal.SIGCONT:
            self._terminal.make_raw()
        if number in (signal.SIGCONT, signal.SIGWINCH):
            self.resize()

    def resize(self) -> None:
        """Copy the terminal's size to the app's terminal."""
        if self._streams is not None and self._streams.has_terminal:
            self._terminal.give_size_to(self._streams.terminal)

    def close(self) -> None:
        """Disconnect from the app and restore the terminal's mode."""
        self._streams = None
        self._loop.forget(self._input)
        os.close(self._input)
        self._output.close()
        self._terminal.restore()


BUFFER_LIMIT = 1 << 20  # bytes to buffer for a slow reader before output is dropped


class ForegroundCopy:
    """A writer that copies the output of a pod's apps to ``fd``, with a prefix before each line.

    A slow reader of a pipe, terminal or socket does not block the apps: output is buffered, and
    dropped if too much is buffered.  If an app writes while the last line of another app is
    unfinished, a line feed is inserted.
    """

    __slots__ = (
        *("_dropped", "_fd", "_loop", "_open_line", "_owned", "_pending", "_put"),
        "_reader_gone",
    )

    def __init__(self, loop: Loop, fd: int) -> None:
        self._loop = loop
        self._fd, self._owned = _without_blocking(fd)
        self._put: Callable[[int, bytes], int] = _send if _is_socket(fd) else os.write
        self._pending = b""
        self._open_line = ""  # prefix of the line that is not finished yet
        self._dropped = 0
        self._reader_gone = False

    def write(self, prefix: str, data: bytes) -> None:
        """Write ``data``, output of an app, with ``prefix`` before each line."""
        if self._reader_gone or not data:
            return
        if len(self._pending) > BUFFER_LIMIT:
            self._dropped += len(data)
            return
        text = b""
        if self._open_line and self._open_line != prefix:
            text = b"\n"
            self._open_line = ""
        start = prefix.encode()
        body = data if data[-1:] != b"\n" else data[:-1]
        text += (b"" if self._open_line else start) + body.replace(b"\n", b"\n" + start)
        if body is not data:
            text += b"\n"
        self._open_line = prefix if body is data else ""
        if self._dropped and not self._pending:
            text = f"[{self._dropped} bytes dropped]\n".encode() + text
            self._dropped = 0
        self._pending += text
        self._flush()

    def write_bare(self, data: bytes) -> None:
        """Write ``data``, output of an app, unchanged."""
        if self._reader_gone:
            return
        if len(self._pending) > BUFFER_LIMIT:
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
            self._reader_gone = True  # such as EPIPE: the reader has closed the pipe
            self._pending = b""
        self._loop.forget(self._fd)

    @property
    def is_empty(self) -> bool:
        """Return whether all output has been written."""
        return not self._pending

    def snapshot(self) -> tuple[str, int]:
        """Return the state of this object for the monitor's hibernation.

        It is (prefix of the unfinished line or "", number of bytes dropped).  Call it only while
        ``is_empty``.
        """
        return self._open_line, self._dropped

    def restore(self, snapshot: tuple[str, int]) -> None:
        """Set the state of this object to ``snapshot``, a result of the method ``snapshot``."""
        self._open_line, self._dropped = snapshot

    def close(self) -> None:
        """Stop writing, and close the descriptor if this object has opened it."""
        self._loop.forget(self._fd)
        if self._owned:
            os.close(self._fd)


def _without_blocking(fd: int) -> tuple[int, bool]:
    """Return (descriptor of the file that ``fd`` refers to, whether it is a new descriptor).

    A pipe or terminal is reopened in non-blocking mode: O_NONBLOCK on ``fd`` itself would affect
    other processes that share the open file.  For any other file, or if reopening fails, the result
    is (``fd``, False), and writing may block.
    """
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and os.isatty(fd)):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            return os.open(f"/proc/self/fd/{fd}", flags), True
    except OSError:
        pass  # it is closed, or owned by another user: use the descriptor itself
    return fd, False


def _is_socket(fd: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False  # closed: write(2) will report it


def _send(fd: int, data: bytes) -> int:
    """Send ``data`` on the socket ``fd`` without blocking; return the number of bytes sent.

    Uses MSG_DONTWAIT, because a socket cannot be reopened with O_NONBLOCK.  Raises OSError if
    send(2) fails.
    """
    sock = socket.socket(fileno=fd)
    try:
        return sock.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    finally:
        sock.detach()  # do not close the caller's descriptor
