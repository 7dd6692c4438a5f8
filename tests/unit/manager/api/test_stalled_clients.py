"""Clients that stop sending or reading while a stopped container is locked for their copy."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from aiohttp import web

from ociruntime.base.errors import ManagerError
from ociruntime.manager.api import stream_output
from ociruntime.manager.api.container_files import pieces
from ociruntime.manager.containers.pod_calls import Programs


class Content:
    """A request body: its parts, and then silence."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = list(parts)

    async def read(self, _: int) -> bytes:
        if self._parts:
            return self._parts.pop(0)
        await asyncio.sleep(600)
        return b""


def test_one_that_sends_no_more() -> None:
    received: list[bytes] = []

    async def receive(*parts: bytes) -> None:
        async for piece in pieces(cast("Any", Content(*parts)), 0.05):
            received.append(piece)

    asyncio.run(receive(b"one", b"two", b""))
    with pytest.raises(web.HTTPRequestTimeout):
        asyncio.run(receive(b"three"))
    assert received == [b"one", b"two", b"three"]


class Answer:
    """An answer whose client does not read."""

    content_type = ""

    async def prepare(self, _: object) -> None:
        return

    async def write(self, _: bytes) -> None:
        await asyncio.sleep(600)


class Request:
    """A request that records that its connection was aborted."""

    def __init__(self) -> None:
        self.transport = self
        self.was_cut = False

    def abort(self) -> None:
        self.was_cut = True


class Echo:
    """Programs that each print a line and then wait."""

    process: asyncio.subprocess.Process

    async def spawn_ocipod(self, *args: str) -> asyncio.subprocess.Process:
        command = ["/bin/sh", "-c", "echo line; exec sleep 600", *args]
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        return self.process


def test_one_that_reads_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is aborted, and the program is killed."""
    request, programs = Request(), Echo()
    monkeypatch.setattr(web, "StreamResponse", Answer)

    async def send() -> None:
        given = cast("web.Request", request), cast("Programs", programs)
        await stream_output.send_output(*given, ("app",), timeout=0.05)

    with pytest.raises(ManagerError, match="timeout after"):
        asyncio.run(send())
    assert request.was_cut
    assert programs.process.returncode == -9
