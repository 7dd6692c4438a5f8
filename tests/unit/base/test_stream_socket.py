"""Connect to Unix sockets: paths without one, and signals meanwhile."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError
from ociruntime.base.stream_socket import connect


@pytest.mark.parametrize("path", ["/nowhere", "/\ud800", f"/{'x' * 4096}", f"/{'x' * 200}"])
def test_paths_without_a_socket(path: str) -> None:
    with pytest.raises(HostError):
        connect(path, "seccomp agent")


def test_a_signal_while_the_queue_is_full(tmp_path: Path) -> None:
    """The connection is made once the listener accepts; Python alone takes it for made before."""
    path = str(tmp_path / "socket")
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(path)
        listener.listen(0)
        waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
        waiting.connect(path)  # the only place in the queue

        def accept() -> None:
            stack.callback(listener.accept()[0].close)

        accepting = threading.Timer(0.2, accept)
        stack.callback(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, _ignore))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        accepting.start()
        try:
            sock = connect(path, "seccomp agent")
            stack.callback(sock.close)
            assert sock.getpeername() == path
        finally:
            accepting.join()


def _ignore(number: int, frame: object) -> None:
    del number, frame
