"""The API's route that streams the events of all containers, as JSON lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from ociruntime.base.errors import BadRequest
from ociruntime.manager.api.parse_requests import has_gone, moment
from ociruntime.manager.containers.events import KINDS, shown
from ociruntime.manager.containers.manager import Manager

EVENT_POLL = 2.0  # seconds between two checks whether the client is still connected
GRACE = 0.05  # seconds to deliver past events when ``until`` is in the past


async def events(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Send events until the client disconnects or the time ``until`` is reached.

    The query may have ``since`` and ``until`` (RFC 3339 times), and any number of the filters
    ``kind``, ``container``, ``image`` and ``label`` (KEY or KEY=VALUE).  Raises BadRequest for an
    unknown kind or an invalid time.
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
    """Return whether an event matches at least one value of each filter.

    A filter without values matches every event.
    """
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


ROUTES = (("GET", "/v1/events", events),)
