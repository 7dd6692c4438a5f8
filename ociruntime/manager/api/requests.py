"""What a request contains: its body and its query, checked by tables.

A table maps each member to its check, a function of the member's name and value.  Every error names
the member.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from ociruntime.base.errors import BadRequest

Check = Callable[[str, Any], object]
Members = Mapping[str, Check]

BODY_TIMEOUT = 30.0  # seconds for a request body to arrive
_LONGEST = 1_000_000  # seconds, the longest timeout of a client
_FLAGS = {"": True, "1": True, "true": True, "0": False, "false": False}


async def read_document(request: web.Request) -> Any:  # noqa: ANN401 - JSON
    """Read and parse the body; None if it is empty.  Raises BadRequest, HTTPException."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            data = await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout from None
    if not data.strip():
        return None
    try:
        return json.loads(data, parse_constant=_no_number, object_pairs_hook=_distinct)
    except UnicodeDecodeError:
        raise BadRequest("", "the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        position = f"line {error.lineno} column {error.colno}"
        raise BadRequest("", f"the body is invalid JSON: {error.msg} ({position})") from None
    except RecursionError:
        raise BadRequest("", "the body is nested too deeply") from None
    except ValueError as error:
        raise BadRequest("", f"the body is invalid JSON: {error}") from None


async def read_body(request: web.Request, members: Members) -> dict[str, Any]:
    """Read the body as an object with these members, each checked; empty without a body.

    Raises BadRequest, HTTPException.
    """
    document = await read_document(request)
    return {} if document is None else checked(document, members)


def checked(document: object, members: Members) -> dict[str, Any]:
    """Check an object and return it without its null members.  Raises BadRequest."""
    if not isinstance(document, dict):
        raise BadRequest("", "the body must be a JSON object")
    given = {name: value for name, value in document.items() if value is not None}
    for name, value in given.items():
        if name not in members:
            known = ", ".join(members)
            raise BadRequest(name, "unknown member", known or "this request takes no members")
        members[name](name, value)
    return given


def required(given: dict[str, Any], name: str) -> Any:  # noqa: ANN401 - JSON
    """Return a member that must be present.  Raises BadRequest if it is missing."""
    if name not in given:
        raise BadRequest(name, "required")
    return given[name]


def flag(query: Mapping[str, str], name: str) -> bool:
    """Return a flag of the query, as in ``?force=1``.  Raises BadRequest."""
    value = query.get(name, "0")
    if value not in _FLAGS:
        raise BadRequest(name, f'must be 0 or 1, not "{value}"')
    return _FLAGS[value]


def json_query(request: web.Request, name: str) -> dict[str, list[str]]:
    """Parse JSON in the query, as in ``?filters={"label": ["a", "b"]}``.  Raises BadRequest."""
    text = request.query.get(name, "")
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise BadRequest(name, "invalid JSON") from None
    if not isinstance(found, dict):
        raise BadRequest(name, "must be a JSON object")
    for key, values in found.items():
        list_of_texts(f"{name}.{key}", values)
    return found


def moment(query: Mapping[str, str], name: str) -> datetime | None:
    """Parse a time of the query; UTC if it has no zone, None if absent.  Raises BadRequest."""
    text = query.get(name, "")
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        message = f'"{text}" is not a time'
        raise BadRequest(name, message, "as in 2026-01-31T12:00:00Z") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def has_gone(request: web.Request) -> bool:
    """Return whether the client has disconnected."""
    return request.transport is None or request.transport.is_closing()


# --- checks ---


def text(where: str, value: object) -> None:
    """Check for a non-empty string of printable characters.  Raises BadRequest."""
    if not isinstance(value, str) or not value:
        needed = "must not be empty" if isinstance(value, str) else "must be a string"
        raise BadRequest(where, needed)
    if not value.isprintable():
        raise BadRequest(where, "must not contain unprintable characters")


def list_of_texts(where: str, value: object) -> None:
    """Check for a list of such strings.  Raises BadRequest."""
    if not isinstance(value, list):
        raise BadRequest(where, "must be a list")
    for index, one in enumerate(value):
        text(f"{where}[{index}]", one)


def duration(where: str, value: object) -> None:
    """Check for a number of seconds.  Raises BadRequest."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequest(where, "must be a number of seconds")
    if not 0 <= value <= _LONGEST:
        raise BadRequest(where, f"{value} is out of range", f"0 to {_LONGEST} seconds")


def text_or_number(where: str, value: object) -> None:
    """Check for an integer or a non-empty string.  Raises BadRequest."""
    if isinstance(value, bool) or not isinstance(value, int):
        text(where, value)


def one_of(*choices: str) -> Check:
    """Return a check for one of these strings."""

    def check(where: str, value: object) -> None:
        if value not in choices:
            raise BadRequest(where, f"unknown value {json.dumps(value)}", ", ".join(choices))

    return check


def list_of(*choices: str) -> Check:
    """Return a check for a list of these strings."""
    check_one = one_of(*choices)

    def check(where: str, value: object) -> None:
        list_of_texts(where, value)
        assert isinstance(value, list)
        for index, one in enumerate(value):
            check_one(f"{where}[{index}]", one)

    return check


def _no_number(word: str) -> object:
    raise ValueError(f"{word} is not a JSON number")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'duplicate member "{twice}"')
    return found
