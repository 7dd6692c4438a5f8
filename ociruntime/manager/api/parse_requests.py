"""Parse and validate the bodies and query strings of API requests.

Each error message names the invalid member or query parameter.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from ociruntime.base import checks
from ociruntime.base.checks import Members, check_object
from ociruntime.base.errors import BadRequest, ConfigError
from ociruntime.base.json_text import parse

BODY_TIMEOUT = 30.0  # seconds for a request body to arrive
_FLAGS = {"": True, "1": True, "true": True, "0": False, "false": False}


async def read_document(request: web.Request) -> Any:  # noqa: ANN401 - JSON
    """Parse a request's JSON body; return None if the body is empty.

    Raises BadRequest for invalid JSON, HTTPRequestTimeout if the body does not arrive within
    ``BODY_TIMEOUT`` seconds.
    """
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            data = await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout from None
    if not data.strip():
        return None
    try:
        return parse(data, "the body")
    except ConfigError as error:
        raise BadRequest("", error.message, error.hint) from None


async def read_body(request: web.Request, members: Members) -> dict[str, Any]:
    """Return a request's body, a JSON object, after validating its members; {} without a body.

    ``members`` maps each member's name to its check.  Raises BadRequest for an unknown or invalid
    member, HTTPRequestTimeout if the body does not arrive within ``BODY_TIMEOUT`` seconds.
    """
    document = await read_document(request)
    return {} if document is None else check_object(document, members)


def required(body: dict[str, Any], name: str) -> Any:  # noqa: ANN401 - JSON
    """Return the member ``name`` of a request's body.  Raises BadRequest if it is missing."""
    if name not in body:
        raise BadRequest(name, "is required")
    return body[name]


def flag(query: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """Return the query's boolean parameter ``name``, such as ``?force=1``.

    Raises BadRequest if its value is not boolean.
    """
    value = query.get(name, str(int(default)))
    if value not in _FLAGS:
        raise BadRequest(name, f'must be 0 or 1, not "{value}"')
    return _FLAGS[value]


def json_query(request: web.Request, name: str) -> dict[str, list[str]]:
    """Parse the query's parameter ``name``, such as ``?filters={"label": ["a"]}``.

    Returns {} if it is missing.  Raises BadRequest if it is not a JSON object of lists of strings.
    """
    text = request.query.get(name, "")
    if not text:
        return {}
    try:
        lists = json.loads(text)
    except (ValueError, RecursionError):
        raise BadRequest(name, "must be a JSON object whose values are lists of strings") from None
    check_lists(name, lists)
    return lists  # type: ignore[no-any-return]  # checked


def check_lists(where: str, value: object) -> None:
    """Raise BadRequest if ``value`` is not a JSON object whose values are lists of strings."""
    if not isinstance(value, dict):
        raise BadRequest(where, "must be a JSON object")
    for key, values in value.items():
        checks.list_of(checks.text)(f"{where}.{key}", values)


def moment(query: Mapping[str, str], name: str) -> datetime | None:
    """Return the time in the query's parameter ``name``; None if it is missing.

    A time without a zone is in UTC.  Raises BadRequest for an invalid time.
    """
    text = query.get(name, "")
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        message = f'must be an RFC 3339 time, not "{text}"'
        raise BadRequest(name, message, "for example 2026-01-31T12:00:00Z") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def has_gone(request: web.Request) -> bool:
    """Return whether the client has disconnected."""
    return request.transport is None or request.transport.is_closing()
