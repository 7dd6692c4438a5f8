"""Create listening Unix sockets for a pod's monitor."""

from __future__ import annotations

import os
import socket

from ociruntime.base.errors import HostError


def listen(path: str, kind: int, backlog: int) -> socket.socket:
    """Return a socket of type ``kind`` (SOCK_*) that listens at ``path``, with mode 0600.

    Raises HostError.
    """
    try:
        made = socket.socket(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC)
        old = os.umask(0o177)
        try:
            made.bind(path)
            made.listen(backlog)
        except OSError:
            made.close()
            raise
        finally:
            os.umask(old)
    except OSError as error:
        raise HostError(f"listen at {path}", error) from None
    return made
