"""Create listening Unix sockets for a pod's monitor."""

from __future__ import annotations

import os
import socket

from ociruntime.base.errors import HostError


def listen(path: str, kind: int, backlog: int) -> socket.socket:
    """Create a Unix socket of type ``kind`` (SOCK_*) at ``path`` and return it, listening.

    Its mode is 0600.  Raises HostError if it cannot be created.
    """
    try:
        listener = socket.socket(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC)
        old = os.umask(0o177)
        try:
            listener.bind(path)
            listener.listen(backlog)
        except OSError:
            listener.close()
            raise
        finally:
            os.umask(old)
    except OSError as error:
        raise HostError(f'listen at the socket "{path}"', error) from None
    return listener
