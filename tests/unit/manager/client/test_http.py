"""Answers of the daemon that are cut, damaged, or end with the connection."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.manager.client.connection import Connection
from ociruntime.manager.client.http import Answer

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"Content-Length: x\r\n\r\nbody",
        HEAD + b"Content-Length: -1\r\n\r\nbody",
        CHUNKED + b"zz\r\nbody",
        CHUNKED + b"-4\r\nbody",
        CHUNKED + b"\xff\r\nbody",
    ],
)
def test_invalid_lengths(pair: tuple[socket.socket, socket.socket], data: bytes) -> None:
    pair[1].sendall(data)
    with pytest.raises(RuntimeFailure, match="invalid length"):
        Answer(pair[0]).whole()


def reset(connection: socket.socket) -> None:
    """Close the connection with unread data: the other end gets ECONNRESET."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.mark.parametrize("sent", [b"", HEAD, HEAD + b"Content-Length: 9\r\n\r\nbody", CHUNKED])
def test_connection_that_is_reset(sent: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
        theirs.sendall(sent)
        ours.sendall(b"never read")
        reset(theirs)
        with ours, pytest.raises(HostError, match="connection reset"):
            Answer(ours).whole()


def test_lines_that_are_not_json(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(HEAD + b"\r\n{}\n{\n")

        thread = threading.Thread(target=serve)
        thread.start()
        lines = Connection(path).lines("GET", "/v1/events")
        assert next(lines) == {}
        with pytest.raises(RuntimeFailure, match="invalid JSON"):
            next(lines)
        thread.join()
