"""Both ends of a container's terminal: the console socket, and a pty to run a command in."""

from __future__ import annotations

import array
import fcntl
import os
import pty
import select
import socket
import struct
import termios
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support import processes


class ConsoleSocket:
    """A socket at ``path`` that receives the one message of a runtime."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._listener.settimeout(30)

    def receive(self) -> Terminal:
        """Accept a connection, receive exactly one descriptor with a payload, and end of file."""
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(30)
            payload, fds, _, _ = socket.recv_fds(connection, 4096, 8)
            assert len(fds) == 1, fds
            assert 0 < len(payload) < 4096, payload
            assert connection.recv(1) == b""
        return Terminal(fds[0])

    def close(self) -> None:
        self._listener.close()


class Terminal:
    """The master side of a pty."""

    def __init__(self, master: int) -> None:
        self.master = master
        self.seen = b""

    def write(self, text: str) -> None:
        os.write(self.master, text.encode())

    def read_until(self, text: str, seconds: float = 20) -> str:
        """Return all output so far once it contains the text.

        Raises AssertionError on timeout.
        """
        deadline = time.monotonic() + seconds
        while text.encode() not in self.seen:
            assert self._read(deadline), f"no {text!r} in {self.seen!r}"
        return self.seen.decode(errors="replace")

    def take(self) -> None:
        """Return what can be read now."""
        while select.select([self.master], [], [], 0)[0] and self._read(time.monotonic() + 1):
            pass

    def read_all(self, seconds: float = 20) -> str:
        """Return everything until the other end is closed."""
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        return self.seen.decode(errors="replace")

    def _read(self, deadline: float) -> bool:
        readable, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
        if not readable:
            return False
        try:
            data = os.read(self.master, 4096)
        except OSError:  # EIO: the last slave was closed
            return False
        self.seen += data
        return bool(data)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def is_raw(self) -> bool:
        """Return whether the line discipline passes bytes unchanged."""
        return not termios.tcgetattr(self.master)[3] & (termios.ICANON | termios.ECHO)

    def close(self) -> None:
        os.close(self.master)


class PtyCommand:
    """A command with a new controlling terminal, like one started by a terminal window."""

    def __init__(self, command: Sequence[str], rows: int = 24, columns: int = 80) -> None:
        ready, go = os.pipe()
        self.pid, master = pty.fork()
        if self.pid == 0:
            os.read(ready, 1)
            os.closerange(3, 64)
            os.execv(command[0], list(command))
        self.terminal = Terminal(master)
        self.terminal.resize(rows, columns)
        os.write(go, b"x")
        os.close(go)
        os.close(ready)

    def wait(self) -> int:
        """Return the exit status, 128 + n for a signal; reads the remaining output first."""
        self.terminal.read_all()
        ended: list[int] = []

        def reaped() -> bool:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            ended.extend([status] if pid else [])
            return bool(ended)

        assert processes.until(reaped), f"the command does not end: {self.terminal.seen!r}"
        code = os.waitstatus_to_exitcode(ended[0])
        return 128 - code if code < 0 else code

    def close(self) -> None:
        self.terminal.close()


def pending_bytes(fd: int) -> int:
    """Return how many bytes can be read now."""
    count = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]
