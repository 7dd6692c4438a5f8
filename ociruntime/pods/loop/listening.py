"""Create the Unix sockets at which a pod's monitor listens."""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as _socket
else:
    import _socket


def listen(path: str, kind: int, backlog: int) -> _socket.socket:
    """Return a listening socket of this ``kind`` at ``path``, for our own user only (mode 0600).

    Raises HostError.
    """
    try:
        made = _socket.socket(_socket.AF_UNIX, kind | _socket.SOCK_CLOEXEC)
        old = posix.umask(0o177)
        try:
            made.bind(path)
            made.listen(backlog)
        except OSError:
            made.close()
            raise
        finally:
            posix.umask(old)
    except OSError as error:
        raise HostError(f"listen at {path}", error) from None
    return made
