"""Validate values of API requests and options: strings, numbers, lists and JSON objects.

A check is a function ``check(where, value)`` that raises BadRequest if the value is invalid.
``where`` is the value's JSON path, or the option if the value comes from a command line; the error
quotes it.  A table of type ``Members`` maps each member of a JSON object to its check.
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
    """Validate a request's JSON object against a table of members; return it without null members.

    Raises BadRequest if ``document`` is not an object, or if a member is unknown or invalid.
    ``what`` names the object in error messages.
    """
    if not isinstance(document, dict):
        raise BadRequest("", f"{what} must be a JSON object")
    members_given = {name: value for name, value in document.items() if value is not None}
    for name, value in members_given.items():
        if name not in members:
            known = ", ".join(members)
            hint = f"known members: {known}" if known else "this request takes no members"
            raise BadRequest(name, "unknown member", hint)
        members[name](name, value)
    return members_given


def string(where: str, value: object) -> None:
    """Raise BadRequest unless ``value`` is a string that an argument or file name can contain.

    The string must not contain NUL or lone surrogates, except U+DC80 to U+DCFF, which stand for
    bytes that are not UTF-8.
    """
    if not isinstance(value, str):
        raise BadRequest(where, "must be a string")
    if "\0" in value:
        raise BadRequest(where, "must not contain NUL")
    try:
        os.fsencode(value)
    except UnicodeEncodeError:  # an unpaired surrogate
        raise BadRequest(where, "must be valid Unicode, without lone surrogates") from None


def nonempty(where: str, value: object) -> None:
    """Raise BadRequest unless ``value`` is a non-empty string without NUL."""
    string(where, value)
    if not value:
        raise BadRequest(where, "must not be empty")


def absolute_path(where: str, value: Any) -> None:  # noqa: ANN401 - unchecked JSON
    """Raise BadRequest unless ``value`` is an absolute path."""
    nonempty(where, value)
    if not value.startswith("/"):
        raise BadRequest(where, f'"{value}" is not an absolute path')


def text(where: str, value: object) -> None:
    """Raise BadRequest unless ``value`` is a non-empty string of printable characters."""
    if isinstance(value, str) and value and not value.isprintable():
        raise BadRequest(where, "must not contain unprintable characters")
    nonempty(where, value)


def text_or_number(where: str, value: object) -> None:
    """Raise BadRequest unless ``value`` is an integer or a non-empty printable string."""
    if isinstance(value, bool) or not isinstance(value, int):
        text(where, value)


def flag(where: str, value: object) -> None:
    """Raise BadRequest unless ``value`` is a boolean."""
    if not isinstance(value, bool):
        raise BadRequest(where, "must be true or false")


def number(least: float, most: float, *, whole: bool = True) -> Check:
    """Return a check that accepts numbers from ``least`` to ``most``.

    If ``whole`` is set, the check accepts only integers.
    """

    def check(where: str, value: object) -> None:
        kinds = (int,) if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise BadRequest(where, "must be an integer" if whole else "must be a number")
        if not least <= value <= most:
            raise BadRequest(where, f"{value} is not between {least} and {most}")

    return check


seconds = number(0, 1_000_000, whole=False)


def one_of(*choices: str) -> Check:
    """Return a check that accepts only one of the strings ``choices``."""

    def check(where: str, value: object) -> None:
        if value not in choices:
            hint = f"use one of {', '.join(choices)}"
            raise BadRequest(where, f"unknown value {json.dumps(value)}", hint)

    return check


def list_of(check: Check) -> Check:
    """Return a check that accepts a list whose elements all pass ``check``."""

    def check_all(where: str, value: object) -> None:
        if not isinstance(value, list):
            raise BadRequest(where, "must be a list")
        for index, element in enumerate(value):
            check(f"{where}[{index}]", element)

    return check_all


def object_of(members: Members, *required: str) -> Check:
    """Return a check that accepts a JSON object; ``required`` names the members it must have.

    ``members`` maps the name of each allowed member to its check.
    """

    def check(where: str, value: object) -> None:
        if not isinstance(value, dict):
            raise BadRequest(where, "must be an object")
        for name, member in value.items():
            if name not in members:
                hint = f"known members: {', '.join(members)}"
                raise BadRequest(path_of(where, name), "unknown member", hint)
            members[name](path_of(where, name), member)
        for name in required:
            if name not in value:
                raise BadRequest(path_of(where, name), "required")

    return check


def path_of(where: str, name: str) -> str:
    """Return the JSON path of the member ``name`` in the object at ``where``: ``WHERE.NAME``.

    If ``where`` is a command-line option, such as ``--option``, returns ``--option: NAME``.
    """
    return f"{where}: {name}" if where.startswith("--") else f"{where}.{name}"


def strings_by_name(where: str, value: object) -> None:
    """Raise BadRequest unless ``value`` is a JSON object whose values are strings.

    The names of its members must not be empty or contain "=" or NUL.
    """
    if not isinstance(value, dict):
        raise BadRequest(where, "must be an object")
    for name, member in value.items():
        if not name or "=" in name or "\0" in name:
            raise BadRequest(
                where,
                f"{json.dumps(name)} is not a valid name",
                "a name must not be empty or contain = or NUL",
            )
        string(path_of(where, name), member)
