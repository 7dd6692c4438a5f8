"""What containers have written, from their log files.

As plain text, or, for who accepts ``application/vnd.ociruntime.frames``, with the stream told: one
byte (1 output, 2 errors), four of length (big endian), and a line.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import web

from ociruntime.base.errors import BadRequest
from ociruntime.base.json_files import time_text
from ociruntime.manager.api.stream_queries import has_gone, moment
from ociruntime.pods.store.app_states import app_record
from ociruntime.pods.store.logs import Line, LogReader, form
from ociruntime.pods.store.phases import open_pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ociruntime.manager.containers.manager import Manager

FRAMES = "application/vnd.ociruntime.frames"
PAUSE = 0.1  # seconds between two looks at a log that is followed
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OVER = ("exited", "deleting", "unknown")
NUMBERS = {"stdout": b"\1", "stderr": b"\2"}


class Wanted(NamedTuple):
    """Which lines; times as they stand in the file, "" for none."""

    streams: tuple[str, ...]
    since: str
    until: str
    tail: int  # -1: all
    follow: bool
    timestamps: bool

    def has(self, line: Line) -> bool:
        if line.stream not in self.streams or line.time < self.since:
            return False
        return not self.until or line.time <= self.until


def wanted_of(query: Mapping[str, str]) -> Wanted:
    """``follow timestamps stdout stderr`` (1 or 0), ``tail`` and times.  Raises BadRequest."""
    streams = [name for name in NUMBERS if _flag(query, name)] or list(NUMBERS)
    tail = query.get("tail", "all")
    if tail != "all" and not (tail.isdecimal() and len(tail) < 10):
        raise BadRequest("tail", f'"{tail}" is no number of lines', "or all")
    return Wanted(
        tuple(streams),
        _time(query, "since"),
        _time(query, "until"),
        -1 if tail == "all" else int(tail),
        _flag(query, "follow"),
        _flag(query, "timestamps"),
    )


def _flag(query: Mapping[str, str], name: str) -> bool:
    value = query.get(name, "0")
    if value not in ("0", "1"):
        raise BadRequest(name, f'"{value}" is neither 0 nor 1')
    return value == "1"


def _time(query: Mapping[str, str], name: str) -> str:
    """The time of a query in the form of the file, "" if there is none.  Raises BadRequest."""
    wanted = moment(query, name)
    if wanted is None:
        return ""
    return time_text((wanted - _EPOCH) // datetime.resolution * 1000)


async def logs(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Until the log's end; with ``follow`` until the container's.  Raises NotFound, BadRequest."""
    wanted = wanted_of(request.query)
    directory, uuid, app = manager.pod(request.match_info["ref"])
    framed = FRAMES in request.headers.get("Accept", "")
    log = await asyncio.to_thread(_Log, directory, uuid, app)
    try:
        answer = web.StreamResponse()
        answer.content_type = FRAMES if framed else "text/plain"
        await answer.prepare(request)
        lines, over = await asyncio.to_thread(log.read)
        if over or not wanted.follow:
            lines += log.rest()
        lines = [line for line in lines if wanted.has(line)]
        if wanted.tail >= 0:
            lines = lines[len(lines) - min(wanted.tail, len(lines)) :]
        await _send(answer, lines, framed, wanted)
        while wanted.follow and not over and not has_gone(request):
            await asyncio.sleep(PAUSE)
            lines, over = await asyncio.to_thread(log.read)
            lines += log.rest() if over else []
            await _send(answer, [line for line in lines if wanted.has(line)], framed, wanted)
        await answer.write_eof()
    finally:
        log.close()
    return answer


async def _send(
    answer: web.StreamResponse, lines: list[Line], framed: bool, wanted: Wanted
) -> None:
    for line in lines:
        data = form(line, False, wanted.timestamps)
        if framed:
            data = NUMBERS[line.stream] + len(data).to_bytes(4, "big") + data
        await answer.write(data)


class _Log:
    """One container's log, with the pod kept open, so that it is read to its end."""

    def __init__(self, directory: str, uuid: str, app: str) -> None:
        """Raises PodError, HostError."""
        self._pod = open_pod(directory, uuid)
        self._app = app
        self._reader = LogReader(f"/proc/self/fd/{self._pod.fd}/logs", app)

    def read(self) -> tuple[list[Line], bool]:
        """What has come since, and whether nothing comes any more.  Raises HostError."""
        # In this order: what it wrote last is there when its end is seen.
        over = self._pod.refresh() != "running" or app_record(self._pod, self._app)["state"] in OVER
        return self._reader.read(), over

    def rest(self) -> list[Line]:
        """Lines without an end."""
        return self._reader.assembler.rest()

    def close(self) -> None:
        self._reader.close()
        self._pod.close()
