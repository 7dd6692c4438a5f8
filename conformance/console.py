"""A console socket as an engine provides it: receives a terminal's master from the runtime."""

from __future__ import annotations

import array
import os
import select
import socket
import time
from pathlib import Path

from conformance.case import Failed


class ConsoleSocket:
    """A socket listening at ``path``, the value for ``--console-socket``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(4)

    def receive(self, seconds: float = 5) -> int:
        """Return the master's descriptor; raises Failed unless exactly one arrives."""
        self._listener.settimeout(seconds)
        try:
            connection, _ = self._listener.accept()
        except TimeoutError:
            raise Failed(
                f"the runtime did not connect to the console socket in {seconds:g} s"
            ) from None
        with connection:
            connection.settimeout(seconds)
            _, ancillary, _, _ = connection.recvmsg(4096, socket.CMSG_SPACE(16 * 4))
        fds = array.array("i")
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(data[: len(data) // 4 * 4])
        if len(fds) != 1:
            raise Failed(f"the console socket received {len(fds)} descriptors instead of 1")
        return fds[0]


def read_all(master: int, until: bytes = b"\n", seconds: float = 5) -> bytes:
    """Read from a terminal's master until ``until`` was read, EOF, or the timeout."""
    poll = select.poll()
    poll.register(master, select.POLLIN)
    deadline = time.monotonic() + seconds
    output = b""
    while until not in output and time.monotonic() < deadline:
        if not poll.poll(100):
            continue
        try:
            data = os.read(master, 65536)
        except OSError:  # EIO: no process has the terminal open any more
            break
        if not data:
            break
        output += data
    return output
