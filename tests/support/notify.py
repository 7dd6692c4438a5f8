"""A service manager's end of sd_notify(3)."""

from __future__ import annotations

import os
import select
import socket
from pathlib import Path


class Manager:
    """A service manager; ``environment`` names its socket, ``messages`` are those received."""

    def __init__(self, path: Path | str) -> None:
        self.environment = {"NOTIFY_SOCKET": str(path), "PATH": os.environ["PATH"]}
        name = f"\0{path[1:]}" if isinstance(path, str) else str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(20)
        self._socket.bind(name)

    def receive(self) -> str:
        """Return the next message; a barrier's descriptor is closed, which passes the barrier."""
        message, fds, _, _ = socket.recv_fds(self._socket, 4096, 4)
        for fd in fds:
            os.close(fd)
        return message.decode()

    def quiet(self) -> bool:
        """Return whether no further message has arrived."""
        return not select.select([self._socket], [], [], 0)[0]

    def close(self) -> None:
        self._socket.close()
