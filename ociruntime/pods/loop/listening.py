"""Create the Unix sockets at which a pod's monitor listens."""

from __future__ import annotations

import os
import socket

from ociruntime.base.errors import HostError


def listen(path: str, kind: int, backlog: int) -> socket.socket:
    """Return a listening socket of this ``kind`` at ``path``, for our own user only (mode 0600).

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
