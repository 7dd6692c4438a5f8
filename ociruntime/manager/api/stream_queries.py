"""Helpers for the routes with streaming answers: times in a query, and disconnection."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ociruntime.base.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web


def moment(query: Mapping[str, str], name: str) -> datetime | None:
    """Parse a time of the query; UTC if it has no zone, None if absent.  Raises BadRequest."""
    text = query.get(name, "")
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        message = f'"{text}" is not a time'
        raise BadRequest(name, message, "as in 2026-01-31T12:00:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def has_gone(request: web.Request) -> bool:
    """Return whether the client has disconnected."""
    return request.transport is None or request.transport.is_closing()
