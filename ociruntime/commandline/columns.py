"""Tables whose columns are separated by tabs, for eyes and for ``cut``."""

from __future__ import annotations

from ociruntime.base.log import plain

_STOP = 8


def tabbed(rows: list[list[str]]) -> str:
    """Each cell, escaped, but the last of its row is filled up with tabs to its column's width."""
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
