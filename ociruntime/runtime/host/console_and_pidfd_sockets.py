"""Send descriptors to the sockets of ``--console-socket`` and ``--pidfd-socket``, as runc does.

conmon or containerd's shim listens on the socket.  Each connection carries one message: a
descriptor, and a text that says what the descriptor is.
"""

from __future__ import annotations

import posix
import socket as _socket

from ociruntime.base.stream_socket import connect, send_descriptor

TERMINAL_NAME = b"/dev/pts/ptmx"
INIT = b"standard"  # runc's name for a container's init
EXEC = b"setns"  # runc's name for a process of `exec`


def send_terminal(sock: _socket.socket, master: int) -> None:
    """Send the pty master over the console socket, then close the socket and the pty master.

    Raises HostError if the pty master cannot be sent.
    """
    send_descriptor(sock, master, TERMINAL_NAME, "send the terminal over the console socket")
    posix.close(master)


def connect_pidfd_socket(path: str) -> _socket.socket | None:
    """Connect to the pidfd socket at ``path``; return None if ``path`` is "".

    Raises HostError if the connection fails.
    """
    return connect(path, "pidfd socket") if path else None


def send_pidfd(sock: _socket.socket, pidfd: int, kind: bytes) -> None:
    """Send a pidfd over the pidfd socket, then close the connection.

    ``kind`` is ``INIT`` or ``EXEC``.  Raises HostError if the pidfd cannot be sent.
    """
    send_descriptor(sock, pidfd, kind, "send the pidfd")
