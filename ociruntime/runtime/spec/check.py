"""Check that a document has the shape that the specification requires.

The tables of ``shape.py`` are walked alongside the document. Unknown members are ignored
(CFG-EXT-01); a value of the wrong type, out of range or not among the accepted words is an error
(CFG-VAL-01). Every string must be valid as a C string: without NUL, and without an unpaired
surrogate, which UTF-8 cannot encode.

Valid documents need no bookkeeping: the path to an invalid value is assembled while its exception
propagates out of the document.
"""

from __future__ import annotations

from ociruntime.runtime.spec import shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class MismatchError(Exception):
    """Raised for a ``value`` that does not match ``kind`` and ``need`` (see shape.py).

    Kinds besides those of the tables: "missing" (value: the object, need: its table),
    "key" (value: a map's invalid key, need: the accepted ones or None), "fewest" (an array
    with too few items) and "text" (a string that is not a C string).
    """

    def __init__(self, kind: str, value: object, need: object = None, *path: str | int) -> None:
        super().__init__(kind)
        self.kind = kind
        self.value = value
        self.need: Any = need
        self.path: list[str | int] = list(path)  # innermost first


def check_shape(config: object) -> None:
    """Check a whole config.json; raises ConfigError at the first bad value.

    Optional members that are null, and optional paths that are empty, are removed from it.
    """
    check(config, "object", shape.CONFIG)


def check(value: object, kind: str, need: object, where: str = "") -> None:
    """Check a document, or the part of one at ``where``; raises ConfigError."""
    try:
        _CHECKS[kind](value, need)
    except MismatchError as mismatch:
        from ociruntime.runtime.spec.refusal import refusal

        raise refusal(mismatch, where) from None


def _object(value: object, table: tuple[tuple[str, bool, str, Any], ...]) -> None:
    if type(value) is not dict:
        raise MismatchError("object", value)
    name = ""
    try:
        for name, required, kind, need in table:
            if name in value:
                item = value[name]
                # Callers in Go write null or "" for absent members: drop optional ones.
                if not required and (item is None or (item == "" and kind == "absolute")):
                    del value[name]
                else:
                    _CHECKS[kind](item, need)
            elif required:
                raise MismatchError("missing", value, table)
    except MismatchError as mismatch:
        mismatch.path.append(name)
        raise


def _array(value: object, need: tuple[int, str, Any]) -> None:
    fewest, kind, item_need = need
    if type(value) is not list:
        raise MismatchError("array", value)
    if len(value) < fewest:
        raise MismatchError("fewest", value)
    check_item = _CHECKS[kind]
    done = 0
    try:
        for item in value:
            check_item(item, item_need)
            done += 1
    except MismatchError as mismatch:
        mismatch.path.append(done)
        raise


def _strings(value: object, fewest: int) -> None:
    # The longest values in a config are lists of names (a seccomp profile names 400 system calls):
    # they are joined and checked at once.
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
    key = ""
    try:
        for key, item in value.items():
            if not key or not is_c_string(key) or (names is not None and key not in names):
                raise MismatchError("key", key, names)
            check_item(item, item_need)
    except MismatchError as mismatch:
        if mismatch.kind != "key" or mismatch.path:
            mismatch.path.append(key)
        raise


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
    # type() and not isinstance(): true and false are not integers here.
    if type(value) is not int or not limits[0] <= value <= limits[1]:
        raise MismatchError("integer", value, limits)


def _boolean(value: object, need: None) -> None:  # noqa: ARG001
    if type(value) is not bool:
        raise MismatchError("boolean", value)


def is_c_string(text: str) -> bool:
    """Return true if the text can be passed to the kernel."""
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
