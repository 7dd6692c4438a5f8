"""Connect Unix sockets: console sockets, pidfd sockets, seccomp agents, monitors."""

from __future__ import annotations

import posix
from errno import EILSEQ, ENOTCONN

from ociruntime.base.errors import HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as _socket
else:
    import _socket

PATH_LIMIT = 107  # bytes, sizeof(sockaddr_un.sun_path) - 1
O_PATH = 0o10000000


def connect(path: str, what: str, seconds: float | None = None) -> _socket.socket:
    """Connect to the stream socket at ``path``; ``what`` describes the socket in errors.

    ``seconds`` is the timeout for connecting and for each later call on the socket; None means no
    timeout.  The path may be longer than a socket address permits.  Raises HostError.
    """
    try:
        return open_connection(path, seconds)
    except OSError as error:
        raise HostError(f'connect to the {what} "{path}"', error) from None


def open_connection(path: str, seconds: float | None = None) -> _socket.socket:
    """Connect to the stream socket at ``path`` like ``connect``, but raise OSError."""
    via = -1
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        sock.settimeout(seconds)
        address = path
        try:
            length = len(path.encode(errors="surrogateescape"))
        except UnicodeEncodeError:  # an unpaired surrogate, from a damaged record
            raise OSError(EILSEQ, posix.strerror(EILSEQ)) from None
        if length > PATH_LIMIT:
            via = posix.open(path, O_PATH | posix.O_CLOEXEC)
            address = f"/proc/self/fd/{via}"
        connect_through_signals(sock, address)
    except OSError:
        sock.close()
        raise
    finally:
        if via >= 0:
            posix.close(via)
    return sock


def connect_through_signals(sock: _socket.socket, address: str) -> None:
    """Connect the blocking Unix socket ``sock``; try again if a signal interrupts connect(2).

    After an interrupted call, Python waits until the socket is writable, because connect(2) usually
    continues in the background.  On a Unix socket it does not continue: the socket is writable at
    once, but not connected.  Raises OSError.
    """
    while True:
        sock.connect(address)
        try:
            sock.getpeername()
        except OSError as error:
            if error.errno == ENOTCONN:
                continue
            raise
        return


def send_descriptor(sock: _socket.socket, fd: int, data: bytes, action: str) -> None:
    """Send ``data`` with the descriptor ``fd`` (SCM_RIGHTS), then close the connection.

    Raises HostError, whose message begins with ``action``.
    """
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fd.to_bytes(4, "little"))
    try:
        sent = sock.sendmsg([data], [rights], _socket.MSG_NOSIGNAL)
        # If no data is left, skip sendall(): the peer may have closed the connection already.
        if sent < len(data):
            sock.sendall(data[sent:], _socket.MSG_NOSIGNAL)
    except OSError as error:
        raise HostError(action, error) from None
    finally:
        sock.close()
