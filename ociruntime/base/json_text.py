"""Read and write JSON without the module ``json``, which takes too long to import.

``dump`` writes strings in ASCII, and members in the order of the dict.  The parser is the scanner
in the C module ``_json``, which ``json`` also uses.
"""

from __future__ import annotations

from _json import encode_basestring_ascii, make_scanner
from typing import Any, NoReturn

_BLANKS = " \t\n\r"


class _Rules:
    """The attributes that the C scanner reads; with these, it accepts NaN and duplicate names."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}  # noqa: RUF012 - the scanner requires it and empties it itself


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate name in a JSON object")
    return members


def _constant(text: str) -> NoReturn:
    raise ValueError(text)


class _StrictRules(_Rules):
    object_pairs_hook = staticmethod(_members)  # type: ignore[assignment]
    parse_constant = staticmethod(_constant)  # type: ignore[assignment]


_scan = make_scanner(_Rules())  # type: ignore[arg-type]  # any object with these members does
_scan_strictly = make_scanner(_StrictRules())  # type: ignore[arg-type]


def read(data: bytes) -> Any:  # noqa: ANN401 - whatever it holds
    """Return the value of the UTF-8 JSON text ``data``; duplicate names are accepted.

    Raises ValueError if the text is invalid.
    """
    return _read(data, _scan)


def parse(data: bytes, name: str) -> Any:  # noqa: ANN401 - whatever it holds
    """Parse an untrusted JSON document strictly; ``name`` (a path) names it in errors.

    Refuses duplicate names, encodings other than UTF-8, NaN, Infinity, and text after the document.
    Raises ConfigError; its message quotes line and column.
    """
    try:
        return _read(data, _scan_strictly)
    except ValueError:
        from ociruntime.base.json_error import explain

        raise explain(data, name) from None


def _read(data: bytes, scan: Any) -> Any:  # noqa: ANN401
    # The scanner raises StopIteration where no value begins, SystemError instead of
    # JSONDecodeError, because Python 3.11 has not imported json.decoder, and RecursionError at the
    # limit on nesting.
    try:
        text = data.decode()
        value, end = scan(text, len(text) - len(text.lstrip(_BLANKS)))
    except (StopIteration, SystemError, RecursionError):
        raise ValueError("not a JSON document") from None
    if text[end:].strip(_BLANKS):
        raise ValueError("unexpected text after the JSON document")
    return value


def load(data: bytes) -> Any:  # noqa: ANN401 - whatever it holds
    """Parse JSON text like ``json.loads``, and raise the same exceptions.

    Imports ``json`` only for text that is invalid or not in UTF-8, and calls ``json.loads`` then.
    """
    try:
        return read(data)
    except ValueError:
        import json

        return json.loads(data)


# Values that are invalid in JSON, but that Python's ``json`` writes and reads.
_CONSTANTS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def dump(value: object, indent: int | str = 0) -> str:
    """Serialise a dict, list, tuple, str, int, float, bool or None as JSON text.

    ``indent`` is the indentation of one level: a number of spaces, or the text itself, such as a
    tab.  With 0, everything is on one line without spaces.  Raises TypeError for values of other
    types.
    """
    step = " " * indent if isinstance(indent, int) else indent
    pieces: list[str] = []
    _write(value, step, "\n", pieces)
    return "".join(pieces)


def _write(value: object, step: str, line: str, pieces: list[str]) -> None:
    if isinstance(value, str):
        pieces.append(encode_basestring_ascii(value))
    elif value is None:
        pieces.append("null")
    elif value is True:
        pieces.append("true")
    elif value is False:
        pieces.append("false")
    elif isinstance(value, (int, float)):
        pieces.append(_CONSTANTS.get(text := repr(value), text))
    elif isinstance(value, dict):
        _write_members(value, step, line, pieces)
    elif isinstance(value, (list, tuple)):
        _write_items(value, step, line, pieces)
    else:
        raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


def _write_members(value: dict[str, object], step: str, line: str, pieces: list[str]) -> None:
    if not value:
        pieces.append("{}")
        return
    inner = line + step
    colon = ": " if step else ":"
    separator = "{"
    for key, item in value.items():
        pieces.append(f"{separator}{inner if step else ''}{encode_basestring_ascii(key)}{colon}")
        _write(item, step, inner, pieces)
        separator = ","
    pieces.append(f"{line}}}" if step else "}")


def _write_items(
    value: list[object] | tuple[object, ...], step: str, line: str, pieces: list[str]
) -> None:
    if not value:
        pieces.append("[]")
        return
    inner = line + step
    separator = "["
    for item in value:
        pieces.append(f"{separator}{inner if step else ''}")
        _write(item, step, inner, pieces)
        separator = ","
    pieces.append(f"{line}]" if step else "]")
