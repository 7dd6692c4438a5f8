"""The client's WebSocket, with the frames of RFC 6455."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import cast

import pytest

from ociruntime.base.errors import RuntimeFailure
from ociruntime.manager.client.websocket import BINARY, TEXT, WebSocket

Pair = tuple[WebSocket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    theirs.settimeout(5)
    with ours, theirs:
        yield WebSocket(ours, b""), theirs


def frame(first: int, data: bytes) -> bytes:
    """Return a frame that a server sends: not masked."""
    size = len(data)
    if size < 126:
        return bytes([first, size]) + data
    if size < 65536:
        return bytes([first, 126]) + size.to_bytes(2, "big") + data
    return bytes([first, 127]) + size.to_bytes(8, "big") + data


def unmasked(sent: bytes) -> tuple[int, bytes]:
    """Return the first byte and the data of a client's frame."""
    size, at = sent[1] & 0x7F, 2
    assert sent[1] & 0x80, "a client masks what it sends"
    if size == 126:
        size, at = int.from_bytes(sent[2:4], "big"), 4
    elif size == 127:
        size, at = int.from_bytes(sent[2:10], "big"), 10
    mask, data = sent[at : at + 4], sent[at + 4 :]
    assert len(data) == size
    return sent[0], bytes(byte ^ mask[n % 4] for n, byte in enumerate(data))


@pytest.mark.parametrize("size", [0, 1, 3, 125, 126, 127, 65535, 65536, 100_001])
def test_sizes(pair: Pair, size: int) -> None:
    ours, theirs = pair
    data = bytes(n % 251 for n in range(size))
    ours.send(BINARY, data)
    sent = b""
    while len(sent) < size + 6 or len(sent) < 6:
        sent += theirs.recv(1 << 20)
        if len(sent) >= size + (6 if size < 126 else 8 if size < 65536 else 14):
            break
    assert unmasked(sent) == (0x82, data)
    theirs.sendall(frame(0x82, data))
    got: list[tuple[int, bytes]] = []
    while not got:
        got = ours.receive()
    assert got == [(BINARY, data)]


def test_to_send_never_waits(pair: Pair) -> None:
    ours, theirs = pair
    data = bytes(n % 251 for n in range(5_000_000))
    ours.send(BINARY, data)
    ours.send(TEXT, b"behind it")
    assert ours.pending
    size = 14 + len(data)
    sent = b""
    while len(sent) < size + 15:
        sent += theirs.recv(1 << 20)
        ours.flush()
    assert ours.pending == 0
    # Many of them take long one by one.
    assert (sent[0], unmasked(sent[size:])) == (0x82, (0x81, b"behind it"))


def test_to_send_in_the_middle_of_sending() -> None:
    """A signal handler may do that."""
    sent: list[bytes] = []

    class Peer:
        def send(self, data: bytes, flags: int) -> int:
            assert flags == socket.MSG_DONTWAIT
            if not sent:
                sent.append(data[:3])
                ours.send(TEXT, b"signal")
                return 3
            sent.append(data)
            return len(data)

    ours = WebSocket(cast("socket.socket", Peer()), b"")
    ours.send(BINARY, b"input")
    whole = b"".join(sent)
    assert unmasked(whole[:11]) == (0x82, b"input")
    assert unmasked(whole[11:]) == (0x81, b"signal")
    assert ours.pending == 0


def test_messages_in_pieces(pair: Pair) -> None:
    ours, theirs = pair
    whole = frame(0x01, b"a") + frame(0x89, b"still there?") + frame(0x00, b"b") + frame(0x80, b"c")
    got = []
    for byte in whole:
        theirs.sendall(bytes([byte]))
        got += ours.receive()
    assert got == [(TEXT, b"abc")]
    assert unmasked(theirs.recv(100)) == (0x8A, b"still there?")


def test_several_at_once_and_the_end(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(frame(0x81, b"1") + frame(0x82, b"2") + frame(0x88, b"\x03\xe8bye"))
    assert ours.receive() == [(TEXT, b"1"), (BINARY, b"2")]
    assert ours.is_closed
    assert unmasked(theirs.recv(100)) == (0x88, b"\x03\xe8")
    assert ours.receive() == []


def test_a_lost_connection(pair: Pair) -> None:
    ours, theirs = pair
    theirs.sendall(frame(0x82, b"half")[:3])
    theirs.close()
    assert ours.receive() == []
    with pytest.raises(RuntimeFailure, match="closed the connection"):
        ours.receive()
    ours.send(BINARY, b"nobody reads it")


def test_what_came_early() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert WebSocket(ours, frame(0x81, b"early")).receive() == [(TEXT, b"early")]
