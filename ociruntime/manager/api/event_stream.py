"""The events route: container events as JSON lines."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aiohttp import web

from ociruntime.base.errors import BadRequest
from ociruntime.manager.api.stream_queries import has_gone, moment
from ociruntime.manager.containers.events import KINDS

if TYPE_CHECKING:
    from ociruntime.manager.containers.manager import Manager

POLL = 2.0  # seconds between two checks whether the client is still connected
GRACE = 0.05  # seconds to deliver past events when ``until`` is over already


async def events(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Send events until the client disconnects or ``until`` is reached.

    Query: ``since``, ``until`` (RFC 3339), ``kind`` and ``container`` (any number of each).
    Raises BadRequest.
    """
    since, until = moment(request.query, "since"), moment(request.query, "until")
    kinds = request.query.getall("kind", [])
    for kind in kinds:
        if kind not in KINDS:
            raise BadRequest("kind", f'unknown kind of event "{kind}"', ", ".join(KINDS))
    containers = request.query.getall("container", [])
    answer = web.StreamResponse()
    answer.content_type = "application/x-ndjson"
    subscription = manager.events.subscribe(since.isoformat() if since else "")
    try:
        await answer.prepare(request)
        await answer.write(b"")
        pending: asyncio.Task[dict[str, Any]] | None = None
        while not has_gone(request):
            pending = pending or asyncio.ensure_future(_next(subscription))
            left = POLL if until is None else (until - datetime.now(UTC)).total_seconds()
            done, _ = await asyncio.wait((pending,), timeout=min(POLL, max(left, GRACE)))
            if not done and left <= 0:
                break
            if not done:
                continue
            event, pending = pending.result(), None
            if not event or (until and datetime.fromisoformat(event["time"]) > until):
                break
            if _matches(event, kinds, containers):
                await answer.write(json.dumps(event).encode() + b"\n")
        if pending is not None:
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)
        await answer.write_eof()
    finally:
        await subscription.aclose()
    return answer


async def _next(subscription: Any) -> dict[str, Any]:  # noqa: ANN401 - an asynchronous generator
    """Return the next event; empty at the end of the subscription."""
    async for event in subscription:
        return dict(event)
    return {}


def _matches(event: dict[str, Any], kinds: list[str], containers: list[str]) -> bool:
    if kinds and event["kind"] not in kinds:
        return False
    return not containers or any(
        event["name"] == word or event["id"].startswith(word) for word in containers
    )
