"""--pidfd-socket of create and run: the listener receives a pidfd of the init."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.peers import judge_by
from tests.support.plugin import MakeContainer

pytestmark = judge_by("ociruntime")


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(1)
        listener.settimeout(10)
        yield listener


def received(listener: socket.socket) -> tuple[bytes, str]:
    """Return the payload and the descriptor's entry in /proc; the connection must be closed."""
    connection, _ = listener.accept()
    with connection:
        payload, fds, _, _ = socket.recv_fds(connection, 64, 2)
        assert connection.recv(1) == b""
    (fd,) = fds
    try:
        return payload, Path(f"/proc/self/fdinfo/{fd}").read_text()
    finally:
        os.close(fd)


@pytest.mark.parametrize("words", [("create",), ("run", "--detach")], ids=" ".join)
def test_pidfd_of_the_first_process(
    container: MakeContainer, work: Path, words: tuple[str, ...]
) -> None:
    one = container()
    with listening(work / "pidfd") as listener:
        one.create(f"--pidfd-socket={work}/pidfd", *words[1:], verb=words[0]).silent()
        payload, facts = received(listener)
    assert payload == b"standard"
    assert f"Pid:\t{one.pid}\n" in facts


def test_nobody_listens(container: MakeContainer, work: Path) -> None:
    one = container()
    one.create(f"--pidfd-socket={work}/none").failed("pidfd socket", "no such file")
    assert one.runtime("state", one.id).status == 1
