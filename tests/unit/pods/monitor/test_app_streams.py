"""An app's output, and when the wait for more of it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ociruntime.pods.loop.event_loop import Loop
from ociruntime.pods.monitor.app_streams import CHUNK, PIPE_CAPACITY, AppStreams

ENOUGH = 64 << 20  # bytes: who has taken so many would go on for ever


@pytest.fixture
def streams() -> Iterator[AppStreams]:
    loop = Loop()
    one = AppStreams(loop)
    one.make({"stdout": "log", "stderr": "log"}, terminal=False)
    yield one
    one.close()
    loop.close()


def test_what_is_left(streams: AppStreams) -> None:
    came: list[tuple[str, bytes]] = []
    streams.sinks.append(lambda stream, data: came.append((stream, data)))
    for fd, text in ((1, b"out"), (2, b"err")):
        os.write(streams.app_ends[fd], text)
    streams.drain()
    assert came == [("stdout", b"out"), ("stderr", b"err")]


def test_a_process_that_writes_forever(streams: AppStreams) -> None:
    """A remaining process of the app writes: each of its pipes is closed after a while."""
    taken = {"stdout": 0, "stderr": 0}

    def write_again(stream: str, data: bytes) -> None:
        taken[stream] += len(data)
        assert taken[stream] < ENOUGH
        os.write(streams.app_ends[1 if stream == "stdout" else 2], data)

    streams.sinks.append(write_again)
    for fd in (1, 2):
        os.write(streams.app_ends[fd], b"x" * CHUNK)
    streams.drain()
    assert all(PIPE_CAPACITY <= size < PIPE_CAPACITY + CHUNK for size in taken.values())
