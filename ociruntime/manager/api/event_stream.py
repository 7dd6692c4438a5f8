"""What happens to containers, as lines of JSON."""

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

LOOK = 2.0  # seconds between two looks whether the client is still there
SOON = 0.05  # seconds in which events that are past are told


async def events(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Until the client goes or ``until`` has come.

    Query: ``since``, ``until`` (RFC 3339), ``kind`` and ``container`` (any number of each).
    Raises BadRequest.
    """
    since, until = moment(request.query, "since"), moment(request.query, "until")
    kinds = request.query.getall("kind", [])
    for kind in kinds:
        if kind not in KINDS:
            raise BadRequest("kind", f'"{kind}" is none', ", ".join(KINDS))
    containers = request.query.getall("container", [])
    answer = web.StreamResponse()
    answer.content_type = "application/x-ndjson"
    told = manager.events.subscribe(since.isoformat() if since else "")
    try:
        await answer.prepare(request)
        await answer.write(b"")
        coming: asyncio.Task[dict[str, Any]] | None = None
        while not has_gone(request):
            coming = coming or asyncio.ensure_future(_next(told))
            left = LOOK if until is None else (until - datetime.now(UTC)).total_seconds()
            done, _ = await asyncio.wait((coming,), timeout=min(LOOK, max(left, SOON)))
            if not done and left <= 0:
                break
            if not done:
                continue
            event, coming = coming.result(), None
            if not event or (until and datetime.fromisoformat(event["time"]) > until):
                break
            if _is_wanted(event, kinds, containers):
                await answer.write(json.dumps(event).encode() + b"\n")
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        await answer.write_eof()
    finally:
        await told.aclose()
    return answer


async def _next(told: Any) -> dict[str, Any]:  # noqa: ANN401 - an asynchronous generator
    """The next event, empty when none comes any more."""
    async for event in told:
        return dict(event)
    return {}


def _is_wanted(event: dict[str, Any], kinds: list[str], containers: list[str]) -> bool:
    if kinds and event["kind"] not in kinds:
        return False
    return not containers or any(
        event["name"] == word or event["id"].startswith(word) for word in containers
    )
