"""A seccomp agent: takes container process states, and answers a filter's notifications."""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import select
import socket
import struct
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.case import Failed

# seccomp_unotify(2); both structures begin with the cookie
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_RECEIVE = 0xC0502100
_SEND = 0xC0182101


@dataclass(frozen=True)
class Chunk:
    """The result of one receiving call."""

    data: bytes
    fds: tuple[int, ...]


@dataclass(frozen=True)
class Connection:
    """The data received over one connection; ``closed``: true once its end was seen."""

    chunks: tuple[Chunk, ...]
    closed: bool

    @property
    def text(self) -> str:
        """The whole payload."""
        return b"".join(chunk.data for chunk in self.chunks).decode()

    @property
    def fds(self) -> tuple[int, ...]:
        """Return all descriptors, in their order."""
        return tuple(fd for chunk in self.chunks for fd in chunk.fds)

    @property
    def state(self) -> dict[str, Any]:
        """The container process state; Failed if the payload is not one JSON object."""
        try:
            found = json.loads(self.text)
        except ValueError as error:
            raise Failed(f"the agent got no JSON ({error}): {self.text[:200]!r}") from None
        if not isinstance(found, dict):
            raise Failed(f"the agent got no object: {found!r}")
        return found

    def filter_fd(self) -> int:
        """The descriptor that ``fds`` names seccompFd."""
        names = self.state.get("fds")
        if not isinstance(names, list) or names.count("seccompFd") != 1:
            raise Failed(f"fds of the state names no seccompFd: {names!r}")
        place = names.index("seccompFd")
        if place >= len(self.fds):
            raise Failed(f"{len(self.fds)} descriptors came, fds names {names!r}")
        return self.fds[place]


class Agent:
    """Listens at ``path``, which goes into ``listenerPath``."""

    def __init__(self, path: Path, kind: int = socket.SOCK_STREAM) -> None:
        self.path = path
        self._ahead: list[Connection] = []
        self._thread: threading.Thread | None = None
        self._listener = socket.socket(socket.AF_UNIX, kind)
        self._listener.bind(str(path))
        if kind != socket.SOCK_DGRAM:
            self._listener.listen(8)

    def receive_ahead(self) -> None:
        """Take the next connection in a thread, for ``received``."""

        def take() -> None:
            with contextlib.suppress(Failed):
                self._ahead.append(self.receive(30))

        self._thread = threading.Thread(target=take, daemon=True)
        self._thread.start()

    def received(self, seconds: float = 5) -> Connection:
        """Return the data received; raises Failed if none came."""
        if self._thread is not None:
            self._thread.join(seconds)
        if not self._ahead:
            raise Failed("nobody connected to the seccomp agent")
        return self._ahead.pop()

    def pending(self) -> bool:
        """Return true if a connection is waiting."""
        return bool(select.select([self._listener], [], [], 0)[0])

    def receive(self, seconds: float = 5) -> Connection:
        """The next connection, read to its end; Failed if none comes."""
        self._listener.settimeout(seconds)
        try:
            connection, _ = self._listener.accept()
        except TimeoutError:
            raise Failed("nobody connected to the seccomp agent") from None
        chunks: list[Chunk] = []
        with connection:
            connection.settimeout(min(seconds, 3))
            while True:
                try:
                    chunk = _receive(connection)
                except TimeoutError:
                    # still open, but nothing more came
                    return Connection(tuple(chunks), closed=False)
                if not chunk.data and not chunk.fds:
                    return Connection(tuple(chunks), closed=True)
                chunks.append(chunk)


def _receive(connection: socket.socket) -> Chunk:
    # Small, so that a payload of several messages is not taken in one.
    data, ancillary, _, _ = connection.recvmsg(4096, socket.CMSG_SPACE(16 * 4))
    fds = array.array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content[: len(content) // 4 * 4])
    return Chunk(data, tuple(fds))


def answer(fd: int, error: int, seconds: float = 5) -> int:
    """Answer one notification with an error number; gives the number of the system call."""
    if not select.select([fd], [], [], seconds)[0]:
        raise Failed("the filter's descriptor told of no system call")
    request = bytearray(_NOTIFICATION.size)
    try:
        fcntl.ioctl(fd, _RECEIVE, request)
        id, _, _, number, *_ = _NOTIFICATION.unpack(request)
        fcntl.ioctl(fd, _SEND, _RESPONSE.pack(id, 0, -error, 0))
    except OSError as problem:
        reason = os.strerror(problem.errno or 0)
        raise Failed(f"seccompFd is no filter's descriptor: {reason}") from None
    return int(number)
