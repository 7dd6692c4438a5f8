"""The API's routes that stream a container's log, and the events of all containers.

A log is sent as plain text.  A client that accepts ``application/vnd.ociruntime.frames`` gets a
frame for each line: one byte for the stream (1 standard output, 2 standard error), the length as
four bytes (big endian), and the line.  Events are sent as JSON lines.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from aiohttp import web

from ociruntime.base.errors import BadRequest
from ociruntime.base.json_files import time_text
from ociruntime.manager.api.parse_requests import flag, has_gone, moment
from ociruntime.manager.containers.events import KINDS, shown
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
EVENT_POLL = 2.0  # seconds between two checks whether the client is still connected
GRACE = 0.05  # seconds to deliver past events when ``until`` is in the past


# --- logs ---


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
    or ``all``.  ``since`` and ``until`` are RFC 3339 times.  Raises BadRequest
    if a value is invalid.
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

    The query is that of ``parse_query``.  Raises NotFound if there is no such container, BadRequest
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
    """A container's log.  It keeps the pod's directory open: if the pod is removed meanwhile, the
    log can still be read.
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


# --- events ---


async def events(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Send events until the client disconnects or the time ``until`` is reached.

    The query may have ``since`` and ``until`` (RFC 3339), and any number of ``kind``,
    ``container``, ``image`` and ``label`` (KEY or KEY=VALUE).  Raises BadRequest for an unknown
    kind or an invalid time.
    """
    since, until = moment(request.query, "since"), moment(request.query, "until")
    kinds = request.query.getall("kind", [])
    for kind in kinds:
        if kind not in KINDS:
            hint = f"supported: {', '.join(KINDS)}"
            raise BadRequest("kind", f'unknown kind of event "{kind}"', hint)
    queries = ("kind", "container", "image", "label")
    filters = {name: request.query.getall(name, []) for name in queries}
    answer = web.StreamResponse()
    answer.content_type = "application/x-ndjson"
    subscription = manager.events.subscribe(since.isoformat() if since else "")
    try:
        await answer.prepare(request)
        await answer.write(b"")
        pending: asyncio.Task[dict[str, Any]] | None = None
        while not has_gone(request):
            pending = pending or asyncio.ensure_future(_next(subscription))
            remaining_seconds = (
                EVENT_POLL if until is None else (until - datetime.now(UTC)).total_seconds()
            )
            done, _ = await asyncio.wait(
                (pending,), timeout=min(EVENT_POLL, max(remaining_seconds, GRACE))
            )
            if not done and remaining_seconds <= 0:
                break
            if not done:
                continue
            event, pending = pending.result(), None
            if not event or (until and datetime.fromisoformat(event["time"]) > until):
                break
            if _matches(event, filters):
                await answer.write(json.dumps(shown(event)).encode() + b"\n")
        if pending is not None:
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)
        await answer.write_eof()
    finally:
        await subscription.aclose()
    return answer


async def _next(subscription: Any) -> dict[str, Any]:  # noqa: ANN401 - an asynchronous generator
    """Return the next event; {} at the end of the subscription."""
    async for event in subscription:
        return dict(event)
    return {}


def _matches(event: dict[str, Any], filters: dict[str, list[str]]) -> bool:
    """Return whether an event matches at least one value of each filter that has values."""
    attributes = event["attributes"]
    labels = attributes.get("labels") or {}
    tests: dict[str, Callable[[str], bool]] = {
        "kind": lambda word: event["kind"] == word,
        "container": lambda word: event["name"] == word or event["id"].startswith(word),
        "image": lambda word: attributes.get("image") in (word, f"{word}:latest"),
        "label": lambda word: _has_label(labels, *word.partition("=")),
    }
    return all(not words or any(map(tests[name], words)) for name, words in filters.items())


def _has_label(labels: dict[str, str], key: str, equals: str, value: str) -> bool:
    return key in labels and (not equals or labels[key] == value)


ROUTES = (
    ("GET", "/v1/containers/{ref}/logs", logs),
    ("GET", "/v1/events", events),
)
