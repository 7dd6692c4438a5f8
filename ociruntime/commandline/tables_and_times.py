"""Format the output of a program: tables, JSON and times."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ociruntime.base.log import plain

_STOP = 8
_UNITS = (("year", 31557600), ("month", 2629800), ("week", 604800), ("day", 86400),
          ("hour", 3600), ("minute", 60), ("second", 1))  # fmt: skip


def tabbed(rows: list[list[str]]) -> str:
    """Format rows as tab-separated columns, which both people and cut(1) can read.

    Escapes unprintable characters in cells.  All cells but the last in a row are padded with tabs
    to the width of their column.
    """
    if not rows:
        return ""
    rows = [[plain(cell) for cell in row] for row in rows]
    columns = zip(*rows, strict=True)
    stops = [max(len(cell) for cell in column) // _STOP + 1 for column in columns]
    lines = []
    for row in rows:
        cells = [
            cell + "\t" * (stop - len(cell) // _STOP)
            for cell, stop in zip(row[:-1], stops, strict=False)
        ]
        lines.append("".join(cells) + row[-1] + "\n")
    return "".join(lines)


def aligned(rows: Sequence[Sequence[str]], gap: int = 1, narrowest: int = 0) -> str:
    """Format rows as a table with aligned columns, ``gap`` spaces apart.

    Escapes unprintable characters in cells.  A column, including the gap, is at least ``narrowest``
    characters wide.
    """
    rows = [[plain(cell) for cell in row] for row in rows]
    columns = zip(*rows, strict=True)
    widths = [max(narrowest, max(map(len, column)) + gap) for column in columns]
    return "".join("".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in rows)


def fitted(rows: list[list[str]], width: int, shrinking: dict[int, int]) -> list[list[str]]:
    """Shorten cells so that the table's lines have at most ``width`` characters, if possible.

    ``shrinking`` maps the index of each column that may be cut to its minimum width in characters.
    """
    rows = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    excess = sum(widths) + 2 * (len(widths) - 1) - width if widths else 0
    while excess > 0 and shrinking:
        wide = max(shrinking, key=lambda at: widths[at] - shrinking[at])
        if widths[wide] <= shrinking[wide]:
            break
        widths[wide] -= 1
        excess -= 1
    return [[_cut(cell, width) for cell, width in zip(row, widths, strict=True)] for row in rows]


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else f"{cell[: width - 1]}…"


def brief(times: str) -> str:
    """Abbreviate the units of time in a table cell: ``Up 3 minutes`` becomes ``Up 3m``."""
    times = times.replace("less than a second", "<1s")
    for name, _ in _UNITS:
        for unit in (f" {name}s", f" {name}"):
            times = times.replace(unit, "mo" if name == "month" else name[0])
    return times


def as_json(value: object, form: str) -> str:
    """Format a value as JSON with a final newline; indented if ``form`` is ``json-pretty``."""
    import json

    indent = 2 if form == "json-pretty" else None
    separators = (",", ": ") if indent else (",", ":")
    return json.dumps(value, indent=indent, separators=separators) + "\n"


def date(seconds: int | None) -> str:
    """Format a time (seconds since the epoch) as local date and time with time zone.

    Returns "" for None.
    """
    if seconds is None:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S %z %Z", time.localtime(seconds))


def ago(seconds: int | None, now: float | None = None) -> str:
    """Format a time (seconds since the epoch) as in ``3 minutes ago``; return "" for None."""
    if seconds is None:
        return ""
    passed = int((time.time() if now is None else now) - seconds)
    for name, length in _UNITS:
        if passed >= length:
            count = passed // length
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "now"
