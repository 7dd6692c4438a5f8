"""The console socket (``--console-socket``), over which the caller gets a terminal's master.

A connection carries one message: one descriptor, with the terminal's name as text.  conmon and
containerd's shim listen at the other end.
"""

from __future__ import annotations

import posix

from ociruntime.base.stream_socket import send_descriptor

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as _socket

NAME = b"/dev/pts/ptmx"


def send(sock: _socket.socket, master: int) -> None:
    """Send the terminal's master and close both; raises HostError."""
    send_descriptor(sock, master, NAME, "send the terminal over the console socket")
    posix.close(master)
