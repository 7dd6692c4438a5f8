from __future__ import annotations

import os
import pty
import socket
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError
from ociruntime.base.stream_socket import connect
from ociruntime.runtime.host import console_and_pidfd_sockets
from tests.support.descriptors import open_descriptors


def listen(path: Path, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """A listening socket, also where the path is longer than an address."""
    server = socket.socket(socket.AF_UNIX, kind)
    directory = os.open(path.parent, os.O_PATH)
    try:
        server.bind(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)
    if kind == socket.SOCK_STREAM:
        server.listen()
    return server


def received(server: socket.socket) -> tuple[bytes, list[int]]:
    """What one connection brought, up to its end."""
    connection, _ = server.accept()
    with connection:
        text, fds, _, _ = socket.recv_fds(connection, 4096, 4)
        assert connection.recv(1) == b""
    return text, fds


@pytest.mark.parametrize("levels", [0, 5])
def test_one_message_one_descriptor_then_the_end(tmp_path: Path, levels: int) -> None:
    directory = tmp_path.joinpath(*["d" * 50] * levels)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / ("s" * 90 if levels else "s")
    master, slave = pty.openpty()
    try:
        with listen(path) as server:
            console_and_pidfd_sockets.send_terminal(connect(str(path), "console socket"), master)
            text, fds = received(server)
        assert text == b"/dev/pts/ptmx"
        assert len(fds) == 1
        try:
            os.write(slave, b"through")
            assert os.read(fds[0], 100) == b"through"
        finally:
            os.close(fds[0])
    finally:
        os.close(slave)  # the sender has closed the master


def test_absent(tmp_path: Path) -> None:
    path = tmp_path / "nope.sock"
    with pytest.raises(HostError) as caught:
        connect(str(path), "console socket")
    assert str(caught.value).endswith(f'console socket "{path}": no such file or directory')


def test_absent_and_long(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="no such file or directory"):
        connect(str(tmp_path / ("s" * 150)), "console socket")


def test_nobody_listens(tmp_path: Path) -> None:
    listen(tmp_path / "s").close()
    with pytest.raises(HostError, match="connection refused"):
        connect(str(tmp_path / "s"), "console socket")


def test_of_another_kind(tmp_path: Path) -> None:
    with (
        listen(tmp_path / "s", socket.SOCK_DGRAM),
        pytest.raises(HostError, match="protocol wrong type"),
    ):
        connect(str(tmp_path / "s"), "console socket")


def test_the_other_end_has_gone(tmp_path: Path) -> None:
    before = open_descriptors()
    with listen(tmp_path / "s") as server:
        sock = connect(str(tmp_path / "s"), "console socket")
        server.accept()[0].close()
        with pytest.raises(HostError, match="broken pipe"):
            console_and_pidfd_sockets.send_terminal(sock, 0)
    assert open_descriptors() == before


def test_nothing_stays_open(tmp_path: Path) -> None:
    before = open_descriptors()
    for name in ("s", "s" * 150):
        with pytest.raises(HostError):
            connect(str(tmp_path / name), "console socket")
    assert open_descriptors() == before
