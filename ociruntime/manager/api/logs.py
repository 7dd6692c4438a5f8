"""The API's route that streams a container's log.

A client that accepts ``application/vnd.ociruntime.frames`` gets a frame for each line; any other
client gets plain text.  A frame consists of one byte for the stream (1 standard output, 2 standard
error), the line's length as four bytes (big endian), and the line.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from aiohttp import web

from ociruntime.base.errors import BadRequest
from ociruntime.base.json_files import time_text
from ociruntime.manager.api.parse_requests import flag, has_gone, moment
from ociruntime.manager.containers.manager import Manager
from ociruntime.pods.store.log_reader import Line, LogReader, form
from ociruntime.pods.store.phases import open_pod
from ociruntime.pods.store.pod import PREPARED, RUNNING
from ociruntime.pods.store.pod_status import app_record

FRAMES = "application/vnd.ociruntime.frames"
LOG_POLL = 0.1  # seconds between two reads of a followed log
OVER = ("exited", "deleting")
NUMBERS = {"stdout": b"\1", "stderr": b"\2"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LogFilter(NamedTuple):
    """The log lines that a client requests: the lines of ``streams`` from ``since`` to ``until``.

    The times are in the format of the log file; "" means no limit.
    """

    streams: tuple[str, ...]
    since: str
    until: str
    tail: int  # send only the last lines; -1 means all lines
    follow: bool
    timestamps: bool

    def has(self, line: Line) -> bool:
        """Return whether the client requests ``line``: its stream and time match."""
        if line.stream not in self.streams or line.time < self.since:
            return False
        return not self.until or line.time <= self.until


def parse_query(query: Mapping[str, str]) -> LogFilter:
    """Parse a log request's query into a LogFilter.

    ``follow``, ``timestamps``, ``stdout`` and ``stderr`` are 1 or 0.  ``tail`` is a number of lines
    or ``all``.  ``since`` and ``until`` are RFC 3339 times.  Raises BadRequest if a value is
    invalid.
    """
    streams = [name for name in NUMBERS if flag(query, name)] or list(NUMBERS)
    tail = query.get("tail", "all")
    if tail != "all" and not (tail.isdecimal() and len(tail) < 10):
        raise BadRequest("tail", f'must be a number of lines or "all", not "{tail}"')
    return LogFilter(
        tuple(streams),
        _time(query, "since"),
        _time(query, "until"),
        -1 if tail == "all" else int(tail),
        flag(query, "follow"),
        flag(query, "timestamps"),
    )


def _time(query: Mapping[str, str], name: str) -> str:
    """Return the query's time ``name`` in the log file's format; "" if it is missing.

    Raises BadRequest for an invalid time.
    """
    time = moment(query, name)
    if time is None:
        return ""
    return time_text((time - _EPOCH) // datetime.resolution * 1000)


async def logs(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Send a container's log; with ``follow``, send new lines until the container exits.

    ``parse_query`` describes the query.  Raises NotFound if there is no such container, BadRequest
    for an invalid query.
    """
    selection = parse_query(request.query)
    directory, uuid, app = manager.find(request.match_info["ref"]).location
    framed = FRAMES in request.headers.get("Accept", "")
    log = await asyncio.to_thread(_Log, directory, uuid, app)
    try:
        answer = web.StreamResponse()
        answer.content_type = FRAMES if framed else "text/plain"
        await answer.prepare(request)
        newest = deque[Line](maxlen=selection.tail) if selection.tail >= 0 else None
        while not has_gone(request):
            # Read the state before the log: the monitor records a program's exit after it has
            # written the program's last output to the log.
            last = await asyncio.to_thread(log.is_over) or not selection.follow
            async for batch in log.batches(last=last):
                if has_gone(request):
                    break
                lines = [line for line in batch if selection.has(line)]
                if newest is None:
                    await _send(answer, lines, framed, selection)
                else:
                    newest.extend(lines)
            if newest is not None:
                await _send(answer, list(newest), framed, selection)
                newest = None
            if last:
                break
            await asyncio.sleep(LOG_POLL)
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
    """A container's log.

    The object keeps the pod's directory open, so the log can be read even after the pod's removal.
    """

    def __init__(self, directory: str, uuid: str, app: str) -> None:
        """Open the pod and its log.

        Raises PodError if the pod does not exist, HostError if a file cannot be opened.
        """
        self._pod = open_pod(directory, uuid)
        self._app = app
        self._reader = LogReader(f"/proc/self/fd/{self._pod.fd}/logs", app)

    def is_over(self) -> bool:
        """Return whether the app has exited, so that its log is complete.

        Raises HostError if the state of the pod or app cannot be read.
        """
        state = self._pod.refresh()
        if state == PREPARED:
            return False  # the container has never been started
        return state != RUNNING or app_record(self._pod, self._app)["state"] in OVER

    async def batches(self, *, last: bool) -> AsyncIterator[list[Line]]:
        """Yield lists of the log's new lines; with ``last``, also an unterminated last line.

        Reads each batch in a thread, so that a long log does not block other requests.  Raises
        HostError if the log cannot be read.
        """
        batches = self._reader.read()
        while (lines := await asyncio.to_thread(next, batches, None)) is not None:
            yield lines
        if last:
            yield self._reader.assembler.rest()

    def close(self) -> None:
        self._reader.close()
        self._pod.close()


ROUTES = (("GET", "/v1/containers/{ref}/logs", logs),)
