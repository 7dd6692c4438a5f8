"""Output with names as prefixes, on a pipe or socket that may be full."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from ociruntime.pods.loop.event_loop import READABLE, Loop
from ociruntime.pods.monitor.foreground_output import BUFFER_LIMIT, ForegroundCopy

HANGS = 60  # seconds


@pytest.fixture
def loop() -> Iterator[Loop]:
    one = Loop()
    yield one
    one.close()


def is_empty(copy: ForegroundCopy) -> bool:
    """Return the present value; a type checker expects an attribute not to change."""
    return copy.is_empty


def test_prefixes(loop: Loop) -> None:
    reader, writer = os.pipe()
    copy = ForegroundCopy(loop, writer)
    for name, data in (
        *(("a: ", b"one\ntwo\n"), ("a: ", b"ha"), ("a: ", b"lf\n"), ("b: ", b"open")),
        *(("a: ", b"next\n"), ("b: ", b""), ("a: ", b"\n")),
    ):
        copy.write(name, data)
    copy.close()
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert file.read().decode() == "a: one\na: two\na: half\nb: open\na: next\na: \n"


def test_a_full_pipe_blocks_nobody(loop: Loop) -> None:
    reader, writer = os.pipe()
    copy = ForegroundCopy(loop, writer)
    for _ in range(2 * BUFFER_LIMIT // 1000):
        copy.write("", b"x" * 999 + b"\n")
    assert not copy.is_empty
    assert os.get_blocking(writer) is not False  # that of others stays as it was
    os.close(reader)
    copy.write("", b"y\n")
    copy.close()
    os.close(writer)


def test_nobody_listens(loop: Loop) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    copy = ForegroundCopy(loop, writer)
    copy.write("a: ", b"text\n")
    copy.write("a: ", b"text\n")
    assert copy.is_empty
    copy.close()
    os.close(writer)


def test_a_full_socket_does_not_block(loop: Loop) -> None:
    """Ssh and systemd pass a socket; O_NONBLOCK would affect its other users."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    copy = ForegroundCopy(loop, ours.fileno())
    text = b"x" * BUFFER_LIMIT + b"\n"
    # A write that blocks ends when the other end is shut down, which the copy then reports.
    guard = threading.Timer(HANGS, lambda: theirs.shutdown(socket.SHUT_RDWR))
    guard.start()
    copy.write("", text)
    guard.cancel()
    assert not is_empty(copy)
    assert os.get_blocking(ours.fileno())
    came = bytearray()

    def read(events: int) -> None:
        del events
        came.extend(theirs.recv(65536))
        loop.stopped = len(came) >= len(text)

    loop.watch(theirs.fileno(), READABLE, read)
    loop.run()
    assert bytes(came) == text
    assert is_empty(copy)
    copy.close()
    ours.send(b"!")  # it is still its owner's
    assert theirs.recv(1) == b"!"
    ours.close()
    theirs.close()


def test_nobody_listens_at_a_socket(loop: Loop) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    copy = ForegroundCopy(loop, ours.fileno())
    copy.write("a: ", b"text\n")
    assert copy.is_empty
    copy.close()
    ours.close()


def test_no_descriptor_at_all(loop: Loop) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    copy = ForegroundCopy(loop, writer)
    copy.write("a: ", b"text\n")
    assert copy.is_empty
    copy.close()
