"""Check config.json against its schema: types, ranges and required members.

The functions walk the tables of ``schema.py`` alongside the document.  They ignore unknown members
(CFG-EXT-01), and refuse values that have the wrong type, are out of range or are not among the
accepted words (CFG-VAL-01).  Every string must be usable as a C string: without NUL, and without an
unpaired surrogate, which UTF-8 cannot encode.

The first walk does not keep track of JSON paths, which a valid document does not need.  Only when
it refuses a value does ``problems`` walk the same tables again, to find all invalid values with
their paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.spec import schema


class MismatchError(Exception):
    """Raised for a ``value`` that does not match ``kind`` and ``need`` of a table in schema.py.

    ``kind`` may also be one of these, which are not in the tables:

        missing  an object lacks a required member; ``value`` is the object
        key      a map has an invalid key; ``value`` is the key, ``need`` the accepted keys or None
        fewest   an array has too few items
        text     a string is not usable as a C string
    """

    def __init__(self, kind: str, value: object, need: object = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.value = value
        self.need: Any = need


def check_schema(config: object) -> None:
    """Check the types, ranges and required members of a config.json.

    Removes from ``config`` the optional members that are null, and the optional paths that are
    empty.  Raises ConfigError for the first invalid value.
    """
    check(config, "object", schema.CONFIG)


def check(value: object, kind: str, need: object, where: str = "") -> None:
    """Check a value against ``kind`` and ``need``, as defined in schema.py.

    ``where`` is the JSON path of the value.  Raises ConfigError for the first invalid value inside
    it.
    """
    try:
        _CHECKS[kind](value, need)
    except MismatchError:
        raise next(problems(value, kind, need, where)) from None


def problems(value: Any, kind: str, need: Any, where: str = "") -> Iterator[ConfigError]:  # noqa: ANN401
    """Yield an error for each invalid value inside ``value``, in the order of the tables.

    ``kind`` and ``need`` describe a valid value, as defined in schema.py.  ``where`` is the JSON
    path of ``value``.
    """
    from ociruntime.runtime.spec.config_errors import refusal

    try:
        _CHECKS[kind](value, need)
    except MismatchError as mismatch:
        inside = False
        for error in _problems_inside(value, kind, need, where):
            inside = True
            yield error
        if not inside:
            yield refusal(mismatch, where)


def _problems_inside(value: Any, kind: str, need: Any, where: str) -> Iterator[ConfigError]:  # noqa: ANN401
    """Yield an error for each invalid member or item of an object, map or array."""
    from ociruntime.runtime.spec.config_errors import join, missing, refusal

    if kind == "object" and isinstance(value, dict):
        for member in need:
            name, _, member_kind, member_need = member
            try:
                _CHECKS[kind](value, (member,))
            except MismatchError:
                path = join(where, name)
                if name in value:
                    yield from problems(value[name], member_kind, member_need, path)
                else:
                    yield missing(path, value, need)
    elif kind == "map" and isinstance(value, dict):
        names, item_kind, item_need = need
        for key, item in value.items():
            try:
                _check_key(key, names)
            except MismatchError as mismatch:
                yield refusal(mismatch, where)
            else:
                yield from problems(item, item_kind, item_need, join(where, key))
    elif kind in ("array", "strings") and isinstance(value, list):
        item_kind, item_need = ("string", None) if kind == "strings" else need[1:]
        for index, item in enumerate(value):
            yield from problems(item, item_kind, item_need, join(where, index))


def _object(value: object, table: tuple[tuple[str, bool, str, Any], ...]) -> None:
    if type(value) is not dict:
        raise MismatchError("object", value)
    for name, required, kind, need in table:
        if name in value:
            item = value[name]
            # Callers written in Go send null or "" for absent members: drop such optional members.
            if not required and (item is None or (item == "" and kind == "absolute")):
                del value[name]
            else:
                _CHECKS[kind](item, need)
        elif required:
            raise MismatchError("missing", value)


def _array(value: object, need: tuple[int, str, Any]) -> None:
    fewest, kind, item_need = need
    if type(value) is not list:
        raise MismatchError("array", value)
    if len(value) < fewest:
        raise MismatchError("fewest", value)
    check_item = _CHECKS[kind]
    for item in value:
        check_item(item, item_need)


def _strings(value: object, fewest: int) -> None:
    # Fast path for the longest values in a config, lists of names (a seccomp profile names 400
    # system calls): join the names and check them at once.
    try:
        if type(value) is list and len(value) >= fewest and is_c_string("".join(value)):
            return
    except TypeError:
        pass
    _array(value, (fewest, "string", None))


def _map(value: object, need: tuple[tuple[str, ...] | None, str, Any]) -> None:
    names, kind, item_need = need
    if type(value) is not dict:
        raise MismatchError("object", value)
    check_item = _CHECKS[kind]
    for key, item in value.items():
        _check_key(key, names)
        check_item(item, item_need)


def _check_key(key: str, names: tuple[str, ...] | None) -> None:
    """Raise MismatchError for an invalid key of a map.

    ``names`` are the accepted keys.  If ``names`` is None, any key is accepted, except the empty
    string and strings that are not usable as a C string.
    """
    if not key or not is_c_string(key) or (names is not None and key not in names):
        raise MismatchError("key", key, names)


def _string(value: object, need: None) -> None:  # noqa: ARG001
    if type(value) is not str:
        raise MismatchError("string", value)
    if not is_c_string(value):
        raise MismatchError("text", value)


def _absolute(value: object, need: None) -> None:
    _string(value, need)
    if not (isinstance(value, str) and value.startswith("/")):
        raise MismatchError("absolute", value)


def _enum(value: object, words: tuple[str, ...]) -> None:
    if type(value) is not str or value not in words:
        raise MismatchError("enum", value, words)


def _integer(value: object, limits: tuple[int, int]) -> None:
    # type(), not isinstance(): in JSON, true and false are not integers.
    if type(value) is not int or not limits[0] <= value <= limits[1]:
        raise MismatchError("integer", value, limits)


def _boolean(value: object, need: None) -> None:  # noqa: ARG001
    if type(value) is not bool:
        raise MismatchError("boolean", value)


def is_c_string(text: str) -> bool:
    """Return whether system calls accept ``text``: UTF-8 can encode it, and it has no NUL."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_CHECKS: dict[str, Callable[[Any, Any], None]] = {
    "absolute": _absolute,
    "array": _array,
    "boolean": _boolean,
    "enum": _enum,
    "integer": _integer,
    "map": _map,
    "object": _object,
    "string": _string,
    "strings": _strings,
}
