"""The start gate: the socket in the state directory at which a created container waits.

Its name is bound to a listening socket that only the container's first process holds, and
holds only until it becomes the program.  So the kernel knows whether a container was
started: a connection is refused when nobody waits any more.
"""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError
from ociruntime.base.files import remove_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as _socket
    from collections.abc import Callable
else:
    import _socket

NAME = "start"
BACKLOG = 4096  # who asks while a hook runs inside stays in the queue until that ends
EAGAIN = 11
GONE = {2, 111}  # ENOENT, ECONNREFUSED


def make_gate(directory: str) -> _socket.socket:
    """The listening socket, bound in ``directory``.  Raises HostError."""
    gate = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)
    try:
        _by_short_path(directory, gate.bind)
        gate.listen(BACKLOG)
    except OSError as error:
        gate.close()
        raise HostError(f"make the start gate in {directory}", error) from None
    return gate


def connect_gate(directory: str) -> _socket.socket | None:
    """A connection to the process that waits, or None if none does.  Raises HostError."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)
    error = _try(directory, connection)
    if error is None:
        return connection
    connection.close()
    if error.errno in GONE:
        return None
    raise HostError(f"connect to the start gate in {directory}", error)


def is_waiting(directory: str) -> bool:
    """Whether a process waits at the gate; it takes no notice of being asked.  HostError."""
    kind = _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC | _socket.SOCK_NONBLOCK
    connection = _socket.socket(_socket.AF_UNIX, kind)
    error = _try(directory, connection)
    connection.close()
    if error is None or error.errno == EAGAIN:  # a full queue is somebody's
        return True
    if error.errno in GONE:
        return False
    raise HostError(f"connect to the start gate in {directory}", error)


def _try(directory: str, connection: _socket.socket) -> OSError | None:
    try:
        _by_short_path(directory, connection.connect)
    except OSError as error:
        return error
    return None


def remove_gate(directory: str) -> None:
    """Take the name away, once the program runs.  Raises OSError."""
    remove_file(f"{directory}/{NAME}")


def _by_short_path(directory: str, use: Callable[[str], object]) -> None:
    """A socket's path has at most 107 bytes, a state directory's may have more."""
    path = f"{directory}/{NAME}"
    if len(path) <= 100:
        use(path)
        return
    fd = posix.open(directory, posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{fd}/{NAME}")
    finally:
        posix.close(fd)
