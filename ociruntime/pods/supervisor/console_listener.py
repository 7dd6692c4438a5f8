"""The runtime's ``--console-socket``: receives the terminal of a container."""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError
from ociruntime.base.files import remove_file
from ociruntime.pods.loop.listening import listen

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as _socket
else:
    import _socket


class ConsoleListener:
    """A socket at ``path`` that accepts one connection, in ``take``."""

    __slots__ = ("_path", "_socket")

    def __init__(self, path: str) -> None:
        """Start to listen.  Raises HostError."""
        self._path = path
        try:
            remove_file(path)
        except OSError as error:
            raise HostError(f"remove {path}", error) from None
        self._socket = listen(path, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK, 1)

    def take(self) -> int:
        """Return the terminal's master once the runtime has exited; -1 if none was sent."""
        master = -1
        try:
            fd, _ = self._socket._accept()  # type: ignore[attr-defined]  # defined in the C module
            sender = _socket.socket(fileno=fd)
            _, rights, _, _ = sender.recvmsg(4096, _socket.CMSG_SPACE(4), _socket.MSG_CMSG_CLOEXEC)
            sender.close()
            for level, kind, data in rights:
                if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                    master = int.from_bytes(data[:4], "little")
        except OSError:
            pass  # the runtime has not connected
        finally:
            self._socket.close()
            remove_file(self._path)
        if master >= 0:
            posix.set_inheritable(master, False)
        return master
