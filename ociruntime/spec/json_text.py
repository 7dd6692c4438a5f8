"""JSON out: a small writer, because importing ``json`` costs more than all it would write.

Strings come out in ASCII, members in the order of the dict.
"""

from __future__ import annotations

from _json import encode_basestring_ascii


def dump(value: object, indent: int | str = 0) -> str:
    """JSON text of a value made of dict, list, tuple, str, int, float, bool and None.

    ``indent``: 0 puts everything on one line without blanks; a number of blanks, or the
    text itself (a tab), one level.  Raises TypeError for anything else.
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
        pieces.append(repr(value))
    elif isinstance(value, dict):
        _write_members(value, step, line, pieces)
    elif isinstance(value, (list, tuple)):
        _write_items(value, step, line, pieces)
    else:
        raise TypeError(f"no JSON for {type(value).__name__}")


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
