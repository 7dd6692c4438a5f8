"""What the routes with streams ask of a request alike."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ociruntime.base.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web


def moment(query: Mapping[str, str], name: str) -> datetime | None:
    """A time of the query, in UTC where it has no zone.  Raises BadRequest."""
    text = query.get(name, "")
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadRequest(name, f'"{text}" is no time', "as in 2026-01-31T12:00:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def has_gone(request: web.Request) -> bool:
    """Whether nobody reads the answer any more."""
    return request.transport is None or request.transport.is_closing()
