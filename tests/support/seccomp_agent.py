"""A seccomp agent in a thread: receives the listener and answers system calls."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

# seccomp_unotify(2): struct seccomp_notif and struct seccomp_notif_resp
NOTIFICATION = struct.Struct("=QIIiIQ6Q")
RESPONSE = struct.Struct("=QqiI")
RECEIVE = 0xC0502100
SEND = 0xC0182101
CONTINUE = 1

Judge = Callable[[int], int]  # system call number -> errno, 0: let it happen


def lets_all(number: int) -> int:
    """Allow every call."""
    return 0


class Agent:
    """An agent listening at ``path``; ``states`` and ``numbers`` collect states and calls."""

    def __init__(self, path: Path, judge: Judge = lets_all) -> None:
        self.path = path
        self.states: list[dict[str, Any]] = []
        self.numbers: list[int] = []
        self._judge = judge
        self._threads: list[threading.Thread] = []
        self._wake, self._waker = os.pipe()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        self._begin(self._take_connections)

    def close(self) -> None:
        """End all threads; programs that wait for an answer get ENOSYS."""
        os.close(self._waker)
        for thread in self._threads:
            thread.join(20)
        self._server.close()
        os.close(self._wake)

    def _begin(self, work: Callable[..., None], *values: object) -> None:
        thread = threading.Thread(target=work, args=values, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _ready(self, fd: int) -> bool:
        """Wait for something to read; return False at the agent's or the descriptor's end."""
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.register(self._wake, 0)
        return dict(poll.poll()).get(fd, 0) & select.POLLIN != 0

    def _take_connections(self) -> None:
        while self._ready(self._server.fileno()):
            connection, _ = self._server.accept()
            with connection:
                data, fds, _, _ = socket.recv_fds(connection, 1 << 16, 4)
                while more := connection.recv(1 << 16):
                    data += more
            self.states.append(json.loads(data))
            self._begin(self._answer, fds[0])

    def _answer(self, listener: int) -> None:
        while self._ready(listener):
            request = bytearray(NOTIFICATION.size)
            try:
                fcntl.ioctl(listener, RECEIVE, request)
                id, _, _, number, *_ = NOTIFICATION.unpack(request)
                self.numbers.append(number)
                error = self._judge(number)
                answer = RESPONSE.pack(id, 0, -error, 0 if error else CONTINUE)
                fcntl.ioctl(listener, SEND, answer)
            except OSError as gone:
                if gone.errno != errno.ENOENT:  # who asked was killed meanwhile
                    break
        os.close(listener)
