"""Output with names in front, on a pipe that may be full."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ociruntime.monitor.foreground_copy import HELD, ForegroundCopy
from ociruntime.monitor.loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    one = Loop()
    yield one
    one.close()


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
    for _ in range(2 * HELD // 1000):
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
