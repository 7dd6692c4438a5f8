"""The logs route: a container's output, read from its log file.

The answer is plain text.  A client that accepts ``application/vnd.ociruntime.frames`` gets frames
that name the stream: one byte (1 standard output, 2 standard error), the length as four bytes (big
endian), and the line.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import web

from ociruntime.base.errors import BadRequest
from ociruntime.base.json_files import time_text
from ociruntime.manager.api.stream_queries import has_gone, moment
from ociruntime.pods.store.description import app_record
from ociruntime.pods.store.logs import Line, LogReader, form
from ociruntime.pods.store.phases import open_pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ociruntime.manager.containers.manager import Manager

FRAMES = "application/vnd.ociruntime.frames"
POLL = 0.1  # seconds between two reads of a followed log
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OVER = ("exited", "deleting", "unknown")
NUMBERS = {"stdout": b"\1", "stderr": b"\2"}


class LogFilter(NamedTuple):
    """The query of a client; times are in the form of the log file, "" for none."""

    streams: tuple[str, ...]
    since: str
    until: str
    tail: int  # -1: all
    follow: bool
    timestamps: bool

    def has(self, line: Line) -> bool:
        """Return whether the line passes the filters for stream and time."""
        if line.stream not in self.streams or line.time < self.since:
            return False
        return not self.until or line.time <= self.until


def parse_query(query: Mapping[str, str]) -> LogFilter:
    """Parse ``follow timestamps stdout stderr`` (1 or 0), ``tail``, ``since`` and ``until``.

    Raises BadRequest.
    """
    streams = [name for name in NUMBERS if _flag(query, name)] or list(NUMBERS)
    tail = query.get("tail", "all")
    if tail != "all" and not (tail.isdecimal() and len(tail) < 10):
        raise BadRequest("tail", f'"{tail}" is not a number of lines', 'or "all"')
    return LogFilter(
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
        raise BadRequest(name, f'must be 0 or 1, not "{value}"')
    return value == "1"


def _time(query: Mapping[str, str], name: str) -> str:
    """Return a time of the query in the log file's form, "" if absent.  Raises BadRequest."""
    time = moment(query, name)
    if time is None:
        return ""
    return time_text((time - _EPOCH) // datetime.resolution * 1000)


async def logs(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Send the log; with ``follow``, send new lines until the container exits.

    Raises NotFound, BadRequest.
    """
    selection = parse_query(request.query)
    directory, uuid, app = manager.pod(request.match_info["ref"])
    framed = FRAMES in request.headers.get("Accept", "")
    log = await asyncio.to_thread(_Log, directory, uuid, app)
    try:
        answer = web.StreamResponse()
        answer.content_type = FRAMES if framed else "text/plain"
        await answer.prepare(request)
        lines, over = await asyncio.to_thread(log.read)
        if over or not selection.follow:
            lines += log.rest()
        lines = [line for line in lines if selection.has(line)]
        if selection.tail >= 0:
            lines = lines[len(lines) - min(selection.tail, len(lines)) :]
        await _send(answer, lines, framed, selection)
        while selection.follow and not over and not has_gone(request):
            await asyncio.sleep(POLL)
            lines, over = await asyncio.to_thread(log.read)
            lines += log.rest() if over else []
            await _send(answer, [line for line in lines if selection.has(line)], framed, selection)
        await answer.write_eof()
    finally:
        log.close()
    return answer


async def _send(
    answer: web.StreamResponse, lines: list[Line], framed: bool, selection: LogFilter
) -> None:
    for line in lines:
        data = form(line, False, selection.timestamps)
        if framed:
            data = NUMBERS[line.stream] + len(data).to_bytes(4, "big") + data
        await answer.write(data)


class _Log:
    """A container's log; the open pod keeps it readable to the end if the pod is removed."""

    def __init__(self, directory: str, uuid: str, app: str) -> None:
        """Open the pod and its log.  Raises PodError, HostError."""
        self._pod = open_pod(directory, uuid)
        self._app = app
        self._reader = LogReader(f"/proc/self/fd/{self._pod.fd}/logs", app)

    def read(self) -> tuple[list[Line], bool]:
        """Return the new lines, and whether the app has exited.  Raises HostError."""
        # The state first: the last output is in the log before the exit shows in the state.
        over = self._pod.refresh() != "running" or app_record(self._pod, self._app)["state"] in OVER
        return self._reader.read(), over

    def rest(self) -> list[Line]:
        """Return the last, unterminated lines."""
        return self._reader.assembler.rest()

    def close(self) -> None:
        self._reader.close()
        self._pod.close()
