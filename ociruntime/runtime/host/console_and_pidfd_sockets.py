"""The caller's sockets for descriptors: ``--console-socket`` and ``--pidfd-socket``, as in runc.

A connection carries one message: one descriptor, with a text that names it.  conmon and
containerd's shim listen at the other end.
"""

from __future__ import annotations

import posix

from ociruntime.base.stream_socket import connect, send_descriptor

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as _socket

TERMINAL_NAME = b"/dev/pts/ptmx"
INIT = b"standard"  # runc's words for a container's init
EXEC = b"setns"  # and for a process of `exec`


def send_terminal(sock: _socket.socket, master: int) -> None:
    """Send the terminal's master and close both; raises HostError."""
    send_descriptor(sock, master, TERMINAL_NAME, "send the terminal over the console socket")
    posix.close(master)


def connect_pidfd_socket(path: str) -> _socket.socket | None:
    """Connect before any process is started; return None without a path.  Raises HostError."""
    return connect(path, "pidfd socket") if path else None


def send_pidfd(sock: _socket.socket, pidfd: int, kind: bytes) -> None:
    """Send the pidfd as ``INIT`` or ``EXEC`` and close the connection; raises HostError."""
    send_descriptor(sock, pidfd, kind, "send the pidfd")
