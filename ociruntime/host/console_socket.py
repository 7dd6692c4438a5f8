"""The console socket: who asked for a detached terminal gets its master over it.

One connection, one message, one descriptor, with the terminal's name as text; then the
connection is closed.  conmon and containerd's shim wait at the other end.
"""

from __future__ import annotations

import posix

from ociruntime.errors import HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as _socket
else:
    import _socket

PATH_LIMIT = 107  # bytes, sizeof(sockaddr_un.sun_path) - 1
O_PATH = 0o10000000
NAME = b"/dev/pts/ptmx"


def connect(path: str) -> _socket.socket:
    """Connect to the stream socket at ``path``; raises HostError.

    To be called before anything is made: a socket that is not there is then no half-made
    container.  A path longer than an address can hold is reached through its descriptor.
    """
    via = -1
    sock = None
    try:
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        address = path
        if len(path.encode(errors="surrogateescape")) > PATH_LIMIT:
            via = posix.open(path, O_PATH | posix.O_CLOEXEC)
            address = f"/proc/self/fd/{via}"
        sock.connect(address)
    except OSError as error:
        if sock is not None:
            sock.close()
        raise HostError(f'connect to the console socket "{path}"', error) from None
    finally:
        if via >= 0:
            posix.close(via)
    return sock


def send(sock: _socket.socket, master: int) -> None:
    """Send the terminal's master and close the connection; raises HostError."""
    from _struct import pack

    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, pack("i", master))
    try:
        sock.sendmsg([NAME], [rights], _socket.MSG_NOSIGNAL)
    except OSError as error:
        raise HostError("send the terminal over the console socket", error) from None
    finally:
        sock.close()
