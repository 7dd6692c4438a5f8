"""Checks of requests: a table maps each member of a JSON object to its check.

A check is a function of a JSON path and the value there.  It raises BadRequest with the path, which
is an option if the value comes from a command line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from ociruntime.base.errors import BadRequest

Check = Callable[[str, Any], object]
Members = Mapping[str, Check]


def check_object(document: object, members: Members, what: str = "the body") -> dict[str, Any]:
    """Check an object and return it without its null members.  Raises BadRequest."""
    if not isinstance(document, dict):
        raise BadRequest("", f"{what} must be a JSON object")
    given = {name: value for name, value in document.items() if value is not None}
    for name, value in given.items():
        if name not in members:
            known = ", ".join(members)
            raise BadRequest(name, "unknown member", known or "this request takes no members")
        members[name](name, value)
    return given


def string(where: str, value: object) -> None:
    """Check that the value is a string without NUL, fit for an argument or a file name."""
    if not isinstance(value, str):
        raise BadRequest(where, "must be a string")
    if "\0" in value:
        raise BadRequest(where, "must not contain NUL")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:  # half of a surrogate pair
        raise BadRequest(where, "must be valid Unicode") from None


def nonempty(where: str, value: object) -> None:
    """Check that the value is a non-empty string without NUL."""
    string(where, value)
    if not value:
        raise BadRequest(where, "must not be empty")


def absolute_path(where: str, value: Any) -> None:  # noqa: ANN401 - unchecked JSON
    """Check that the value is an absolute path."""
    nonempty(where, value)
    if not value.startswith("/"):
        raise BadRequest(where, f'"{value}" is not an absolute path')


def text(where: str, value: object) -> None:
    """Check that the value is a non-empty string of printable characters."""
    if isinstance(value, str) and value and not value.isprintable():
        raise BadRequest(where, "must not contain unprintable characters")
    nonempty(where, value)


def text_or_number(where: str, value: object) -> None:
    """Check that the value is an integer or a non-empty string of printable characters."""
    if isinstance(value, bool) or not isinstance(value, int):
        text(where, value)


def flag(where: str, value: object) -> None:
    """Check that the value is a boolean."""
    if not isinstance(value, bool):
        raise BadRequest(where, "must be true or false")


def number(least: float, most: float, *, whole: bool = True) -> Check:
    """Return a check for a number in this range."""

    def check(where: str, value: object) -> None:
        kinds = (int,) if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise BadRequest(where, "must be an integer" if whole else "must be a number")
        if not least <= value <= most:
            raise BadRequest(where, f"{value} is not between {least} and {most}")

    return check


seconds = number(0, 1_000_000, whole=False)


def one_of(*choices: str) -> Check:
    """Return a check for one of these strings."""

    def check(where: str, value: object) -> None:
        if value not in choices:
            raise BadRequest(where, f"unknown value {json.dumps(value)}", ", ".join(choices))

    return check


def list_of(check: Check) -> Check:
    """Return a check for a list whose elements pass ``check``."""

    def check_all(where: str, value: object) -> None:
        if not isinstance(value, list):
            raise BadRequest(where, "must be a list")
        for index, one in enumerate(value):
            check(f"{where}[{index}]", one)

    return check_all


def object_of(members: Members, *required: str) -> Check:
    """Return a check for an object with these members, some of them required."""

    def check(where: str, value: object) -> None:
        if not isinstance(value, dict):
            raise BadRequest(where, "must be an object")
        for name, one in value.items():
            if name not in members:
                raise BadRequest(path_of(where, name), "unknown member", ", ".join(members))
            members[name](path_of(where, name), one)
        for name in required:
            if name not in value:
                raise BadRequest(path_of(where, name), "required")

    return check


def path_of(where: str, name: str) -> str:
    """Return the path of a member of the object at ``where``, which may be an option."""
    return f"{where}: {name}" if where.startswith("--") else f"{where}.{name}"


def strings_by_name(where: str, value: object) -> None:
    """Check that the value maps names of variables or labels to strings."""
    if not isinstance(value, dict):
        raise BadRequest(where, "must be an object")
    for name, one in value.items():
        if not name or "=" in name or "\0" in name:
            raise BadRequest(where, f"{name!r} is not a valid name")
        string(path_of(where, name), one)
