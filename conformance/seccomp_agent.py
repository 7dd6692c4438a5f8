"""A seccomp agent: receives container process states, and answers a filter's notifications."""

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

# struct seccomp_notif and seccomp_notif_resp, and their ioctls; see seccomp_unotify(2)
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_RECEIVE = 0xC0502100
_SEND = 0xC0182101


@dataclass(frozen=True)
class Chunk:
    """The result of one recvmsg(2): data and the descriptors sent with it."""

    data: bytes
    fds: tuple[int, ...]


@dataclass(frozen=True)
class Connection:
    """Everything received over one connection; ``closed``: the runtime has closed it."""

    chunks: tuple[Chunk, ...]
    closed: bool

    @property
    def text(self) -> str:
        """The whole payload."""
        return b"".join(chunk.data for chunk in self.chunks).decode()

    @property
    def fds(self) -> tuple[int, ...]:
        """All received descriptors, in order."""
        return tuple(fd for chunk in self.chunks for fd in chunk.fds)

    @property
    def state(self) -> dict[str, Any]:
        """The container process state; raises Failed if the payload is not one JSON object."""
        try:
            state = json.loads(self.text)
        except ValueError as error:
            text = repr(self.text[:200])
            raise Failed(f"the seccomp agent received invalid JSON: {error}: {text}") from None
        if not isinstance(state, dict):
            raise Failed(f"the seccomp agent received a state that is not an object: {state!r}")
        return state

    def filter_fd(self) -> int:
        """Return the received descriptor that the state's ``fds`` calls seccompFd."""
        names = self.state.get("fds")
        if not isinstance(names, list) or names.count("seccompFd") != 1:
            raise Failed(f"fds of the container process state has no seccompFd: {names!r}")
        index = names.index("seccompFd")
        if index >= len(self.fds):
            raise Failed(f"received {len(self.fds)} descriptors, but fds has {names!r}")
        return self.fds[index]


class Agent:
    """An agent listening at ``path``, the value for ``linux.seccomp.listenerPath``."""

    def __init__(self, path: Path, kind: int = socket.SOCK_STREAM) -> None:
        self.path = path
        self._background: list[Connection] = []
        self._thread: threading.Thread | None = None
        self._listener = socket.socket(socket.AF_UNIX, kind)
        self._listener.bind(str(path))
        if kind != socket.SOCK_DGRAM:
            self._listener.listen(8)

    def receive_ahead(self) -> None:
        """Receive the next connection in a background thread; ``received`` returns it."""

        def take() -> None:
            with contextlib.suppress(Failed):
                self._background.append(self.receive(30))

        self._thread = threading.Thread(target=take, daemon=True)
        self._thread.start()

    def received(self, seconds: float = 5) -> Connection:
        """Return the connection of ``receive_ahead``; raises Failed if there was none."""
        if self._thread is not None:
            self._thread.join(seconds)
        if not self._background:
            raise Failed("the runtime did not connect to the seccomp agent")
        return self._background.pop()

    def pending(self) -> bool:
        """Return whether a connection can be accepted."""
        return bool(select.select([self._listener], [], [], 0)[0])

    def receive(self, seconds: float = 5) -> Connection:
        """Accept the next connection and read it to its end; raises Failed on timeout."""
        self._listener.settimeout(seconds)
        try:
            connection, _ = self._listener.accept()
        except TimeoutError:
            raise Failed("the runtime did not connect to the seccomp agent") from None
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
    """Answer one notification with an errno; return the number of the system call."""
    if not select.select([fd], [], [], seconds)[0]:
        raise Failed(f"no notification on seccompFd within {seconds:g} s")
    request = bytearray(_NOTIFICATION.size)
    try:
        fcntl.ioctl(fd, _RECEIVE, request)
        id, _, _, number, *_ = _NOTIFICATION.unpack(request)
        fcntl.ioctl(fd, _SEND, _RESPONSE.pack(id, 0, -error, 0))
    except OSError as problem:
        reason = os.strerror(problem.errno or 0)
        raise Failed(f"seccompFd is not a seccomp listener: {reason}") from None
    return int(number)
