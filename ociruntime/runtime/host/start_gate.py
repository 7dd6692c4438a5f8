"""The start gate: the socket in the state directory at which a created container waits.

Only the container's init holds the listening socket, and only until it executes the program.  Once
the program runs, the kernel refuses connections, which shows that the container was started.
"""

from __future__ import annotations

import errno
import posix
import time

from ociruntime.base.errors import HostError
from ociruntime.base.files import remove_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as _socket
    from collections.abc import Callable
else:
    import _socket

NAME = "start"
BACKLOG = 4096  # connections that wait while a hook runs in the container
CONNECT_SECONDS = 1.0
GONE = {errno.ENOENT, errno.ECONNREFUSED}


def make_gate(directory: str) -> _socket.socket:
    """Create the start gate's listening socket in ``directory``, and return it.

    Raises HostError if the socket cannot be created.
    """
    try:
        gate = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)
        try:
            _by_short_path(directory, gate.bind)
            gate.listen(BACKLOG)
        except OSError:
            gate.close()
            raise
    except OSError as error:
        raise HostError(f'create the socket "{directory}/{NAME}"', error) from None
    return gate


def connect_gate(directory: str) -> _socket.socket | None:
    """Connect to the init that waits for `start`; return None if no init is waiting.

    ``directory`` is the container's state directory.  Waits at most a second.  A blocking
    connect(2) could wait much longer: a process that has traced the init may still hold the
    listening socket, with a full queue.  Raises HostError if the queue stays full, or if the
    connection fails for another reason.
    """
    connection = _connection(directory)
    deadline = time.monotonic() + CONNECT_SECONDS
    while (
        error := _try_to_connect(directory, connection)
    ) is not None and error.errno == errno.EAGAIN:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    if error is None:
        connection.setblocking(True)
        return connection
    connection.close()
    if error.errno in GONE:
        return None
    raise HostError(f'connect to the socket "{directory}/{NAME}"', error)


def is_waiting(directory: str) -> bool:
    """Return whether the container's init is waiting for `start`.

    ``directory`` is the container's state directory.  Raises HostError if the state of the gate
    cannot be determined.
    """
    connection = _connection(directory)
    error = _try_to_connect(directory, connection)
    connection.close()
    if error is None or error.errno == errno.EAGAIN:  # EAGAIN: the queue of a waiting init is full
        return True
    if error.errno in GONE:
        return False
    raise HostError(f'connect to the socket "{directory}/{NAME}"', error)


def _connection(directory: str) -> _socket.socket:
    kind = _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC | _socket.SOCK_NONBLOCK
    try:
        return _socket.socket(_socket.AF_UNIX, kind)
    except OSError as error:
        raise HostError(f'connect to the socket "{directory}/{NAME}"', error) from None


def _try_to_connect(directory: str, connection: _socket.socket) -> OSError | None:
    while True:
        try:
            _by_short_path(directory, connection.connect)
        except InterruptedError:
            continue  # Python retries connect(2) after a signal only for blocking sockets
        except OSError as error:
            return error
        return None


def remove_gate(directory: str) -> None:
    """Remove the gate's socket from ``directory``.  Raises OSError if that fails."""
    remove_file(f"{directory}/{NAME}")


def _by_short_path(directory: str, use: Callable[[str], object]) -> None:
    """Call ``use`` with a short path of the start gate: unix(7) limits paths to 107 bytes."""
    path = f"{directory}/{NAME}"
    if len(path) <= 100:
        use(path)
        return
    fd = posix.open(directory, posix.O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{fd}/{NAME}")
    finally:
        posix.close(fd)
