"""Tables whose columns are separated by tabs, readable by people and by ``cut``."""

from __future__ import annotations

from ociruntime.base.log import plain

_STOP = 8


def tabbed(rows: list[list[str]]) -> str:
    """Escape each cell, and pad all but the last of a row with tabs to the column's width."""
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
