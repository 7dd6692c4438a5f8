"""The log of container events, a file of JSON lines, and subscriptions to new events.

An event is ``{"time", "kind", "id", "name", "attributes"}``.  ``time`` is an RFC 3339 time in UTC,
``id`` and ``name`` identify the container.  ``KINDS`` lists the kinds.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from datetime import datetime
from typing import Any

from ociruntime.base.errors import reason
from ociruntime.base.json_files import now
from ociruntime.manager.containers.container_records import Record

Event = dict[str, Any]

log = logging.getLogger("ocid")

KINDS = (
    *("create", "start", "die", "stop", "kill", "restart", "pause", "unpause", "rename"),
    *("update", "destroy", "oom"),
)
HELD = 4096  # the number of latest events kept in memory
ROTATED_AT = 4 << 20  # bytes; the log file is rotated before it grows larger
QUEUED = 4096  # events queued for a slow subscriber, whose subscription then ends


def described(record: Record | None, attributes: Event) -> Event:
    """Return an event's ``attributes`` plus the container's image and labels.

    ``record`` is the container's record.  If it is None, because the record is corrupt, returns
    ``attributes`` unchanged.
    """
    if record is None:
        return attributes
    labels = record.spec.get("labels")
    image = record.image or f"dir:{record.spec.get('rootfs')}"
    return {**attributes, "image": image, **({"labels": labels} if labels else {})}


def shown(event: Event) -> Event:
    """Return an event as the API sends it: without the attribute ``at``, unless ``at`` is a time.

    The event log uses ``at`` to avoid publishing an event twice.  For a start or exit, ``at`` is
    the time; for a creation or removal, it is the container's id.
    """
    attributes = event["attributes"]
    if attributes.get("at") != event["id"]:
        return event
    return {**event, "attributes": {key: attributes[key] for key in attributes if key != "at"}}


class EventBus:
    """The event log in the file ``path``, which is rotated to ``PATH.1``, and its subscribers.

    Ignores incomplete lines of the file: a daemon that is killed during a write leaves one.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._events: deque[Event] = deque(maxlen=HELD)
        self._stamps: set[tuple[str, str, str]] = set()
        self._queues: set[asyncio.Queue[Event | None]] = set()
        self._fd = -1
        self._size = 0

    def open(self) -> None:
        """Read the latest events and open the file for appending.

        Raises OSError if the file cannot be read or opened.
        """
        for path in (f"{self._path}.1", self._path):
            for event in _read(path):
                self._remember(event)
        self._open()

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, 0o640)
        self._size = os.fstat(self._fd).st_size
        if self._size and os.pread(self._fd, 1, self._size - 1) != b"\n":
            self._size += os.write(self._fd, b"\n")

    def close(self) -> None:
        """End all subscriptions and close the log file."""
        for queue in list(self._queues):
            _end(queue)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def publish(
        self, kind: str, container_id: str, name: str, attributes: dict[str, Any] | None = None
    ) -> None:
        """Append an event to the log and send it to all subscribers.

        Does nothing if a recent event has the same kind, container and attribute ``at``.  If the
        event cannot be written, for example because the disk is full, it is still sent to the
        subscribers.
        """
        attributes = attributes or {}
        if self.has(kind, container_id, str(attributes.get("at") or "")):
            return
        event: Event = {
            "time": now(),
            "kind": kind,
            "id": container_id,
            "name": name,
            "attributes": attributes,
        }
        try:
            self._write(json.dumps(event, separators=(",", ":")).encode() + b"\n")
        except OSError as error:
            log.warning('write an event to "%s": %s', self._path, reason(error))
        self._remember(event)
        for queue in list(self._queues):
            if queue.full():
                self._queues.discard(queue)
                _end(queue)
            else:
                queue.put_nowait(event)

    def _write(self, line: bytes) -> None:
        if self._fd < 0:  # an earlier rotation has failed after its rename
            self._open()
        if self._size + len(line) > ROTATED_AT:
            os.rename(self._path, f"{self._path}.1")
            os.close(self._fd)
            self._fd = -1
            self._open()
        self._size += os.write(self._fd, line)

    def has(self, kind: str, container_id: str, at: str) -> bool:
        """Return whether a recent event has this kind, container and attribute ``at``."""
        return bool(at) and (kind, container_id, at) in self._stamps

    def _remember(self, event: Event) -> None:
        if len(self._events) == HELD:
            self._stamps.discard(_stamp(self._events[0]))
        self._events.append(event)
        stamp = _stamp(event)
        if stamp[2]:
            self._stamps.add(stamp)

    def since(self, moment: str) -> list[Event]:
        """Return the events since ``moment``, an ISO 8601 time with a zone.

        Returns at most the latest ``HELD`` events.  Raises ValueError if ``moment`` is invalid.
        """
        first = datetime.fromisoformat(moment)
        return [event for event in self._events if datetime.fromisoformat(event["time"]) >= first]

    def subscribe(self, since: str = "") -> AsyncGenerator[Event, None]:
        """Return a generator of recent events since the time ``since``, then of new events.

        ``since`` is an RFC 3339 time with a zone; if it is "", the generator yields only new
        events.  The generator ends when the log is closed, or when the subscriber has ``QUEUED``
        unread events.  Raises ValueError if ``since`` is invalid.
        """
        queue: asyncio.Queue[Event | None] = asyncio.Queue(QUEUED)
        past = self.since(since) if since else []
        self._queues.add(queue)
        return self._subscription(past, queue)

    async def _subscription(
        self, past: list[Event], queue: asyncio.Queue[Event | None]
    ) -> AsyncGenerator[Event, None]:
        try:
            for event in past:
                yield event
            while (next_event := await queue.get()) is not None:
                yield next_event
        finally:
            self._queues.discard(queue)


def _end(queue: asyncio.Queue[Event | None]) -> None:
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(None)


def _stamp(event: Event) -> tuple[str, str, str]:
    return event["kind"], event["id"], str(event["attributes"].get("at") or "")


def _read(path: str) -> Iterable[Event]:
    try:
        with open(path, "rb") as file:
            lines = file.readlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            event = json.loads(line)
            datetime.fromisoformat(event["time"])
            _stamp(event)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        yield event
