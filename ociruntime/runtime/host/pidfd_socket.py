"""The pidfd socket (``--pidfd-socket``), over which the caller gets a pidfd, as from runc.

A connection carries one message: one descriptor, with the kind of the process as text.
"""

from __future__ import annotations

from ociruntime.base.stream_socket import connect, send_descriptor

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as _socket

FIRST = b"standard"  # of a container
FURTHER = b"setns"  # by `exec`


def open_receiver(path: str) -> _socket.socket | None:
    """Connect to the socket, before any process is started; return None without a path.

    Raises HostError.
    """
    return connect(path, "pidfd socket") if path else None


def send(sock: _socket.socket, pidfd: int, kind: bytes) -> None:
    """Send the pidfd and close the connection; raises HostError."""
    send_descriptor(sock, pidfd, kind, "send the pidfd")
