"""What comes with a request: a JSON object, checked by a table; flags of the query.

A table has, for each member that there may be, what checks it: a function that gets the member's
name and value.  Every error names the member.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from ociruntime.base.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Check = Callable[[str, Any], object]
    Members = Mapping[str, Check]

PATIENCE = 30.0  # seconds, for a body to come
_LONGEST = 1_000_000  # seconds to wait for anything
_FLAGS = {"": True, "1": True, "true": True, "0": False, "false": False}


async def read_document(request: web.Request) -> Any:  # noqa: ANN401 - JSON
    """The body; None if there is none.  Raises BadRequest, HTTPException."""
    try:
        async with asyncio.timeout(PATIENCE):
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
        place = f"line {error.lineno} column {error.colno}"
        raise BadRequest("", f"the body is no JSON: {error.msg} ({place})") from None
    except RecursionError:
        raise BadRequest("", "the body is nested too deeply") from None
    except ValueError as error:
        raise BadRequest("", f"the body is no JSON: {error}") from None


async def read_body(request: web.Request, members: Members) -> dict[str, Any]:
    """An object with these members, each checked; without a body an empty one.

    Raises BadRequest, HTTPException.
    """
    document = await read_document(request)
    return {} if document is None else checked(document, members)


def checked(document: object, members: Members) -> dict[str, Any]:
    """The object without what is null.  Raises BadRequest."""
    if not isinstance(document, dict):
        raise BadRequest("", "the body is no JSON object")
    given = {name: value for name, value in document.items() if value is not None}
    for name, value in given.items():
        if name not in members:
            known = ", ".join(members)
            raise BadRequest(name, "unknown member", known or "it takes no members")
        members[name](name, value)
    return given


def required(given: dict[str, Any], name: str) -> Any:  # noqa: ANN401 - JSON
    """Raises BadRequest: it is not there."""
    if name not in given:
        raise BadRequest(name, "it is needed")
    return given[name]


def flag(request: web.Request, name: str, default: bool = False) -> bool:
    """Of the query: ``?force=1``.  Raises BadRequest."""
    if name not in request.query:
        return default
    value = request.query[name]
    if value not in _FLAGS:
        raise BadRequest(name, f'"{value}" is neither 0 nor 1')
    return _FLAGS[value]


def json_query(request: web.Request, name: str) -> dict[str, list[str]]:
    """``?filters={"label": ["a", "b"]}``.  Raises BadRequest."""
    text = request.query.get(name, "")
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise BadRequest(name, "it is no JSON") from None
    if not isinstance(found, dict):
        raise BadRequest(name, "it is no JSON object")
    for key, values in found.items():
        list_of_texts(f"{name}.{key}", values)
    return found


# --- checks ---


def text(where: str, value: object) -> None:
    """Raises BadRequest."""
    if not isinstance(value, str) or not value:
        raise BadRequest(where, "it is no text" if not isinstance(value, str) else "it is empty")
    if not value.isprintable():
        raise BadRequest(where, "it has characters that cannot be printed")


def list_of_texts(where: str, value: object) -> None:
    """Raises BadRequest."""
    if not isinstance(value, list):
        raise BadRequest(where, "it is no list")
    for index, one in enumerate(value):
        text(f"{where}[{index}]", one)


def duration(where: str, value: object) -> None:
    """Seconds, 0 or more.  Raises BadRequest."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequest(where, "it is no number of seconds")
    if not 0 <= value <= _LONGEST:
        raise BadRequest(where, f"{value} is no number of seconds", f"0 to {_LONGEST}")


def text_or_number(where: str, value: object) -> None:
    """Raises BadRequest."""
    if isinstance(value, bool) or not isinstance(value, int):
        text(where, value)


def one_of(*words: str) -> Check:
    """A check for one of these."""

    def check(where: str, value: object) -> None:
        if value not in words:
            raise BadRequest(where, f"{json.dumps(value)} is not possible", ", ".join(words))

    return check


def list_of(*words: str) -> Check:
    """A check for a list of these."""
    check_one = one_of(*words)

    def check(where: str, value: object) -> None:
        list_of_texts(where, value)
        assert isinstance(value, list)
        for index, one in enumerate(value):
            check_one(f"{where}[{index}]", one)

    return check


def _no_number(word: str) -> object:
    raise ValueError(f"{word} is no number of JSON")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'"{twice}" is there twice')
    return found
