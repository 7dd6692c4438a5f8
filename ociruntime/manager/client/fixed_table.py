"""The table of ``container get`` and ``container list``, whose columns scripts rely on; pure.

A column is as wide as its longest cell, and one blank separates columns.  Times are RFC 3339 with
nanoseconds, in UTC.
"""

from __future__ import annotations

from ociruntime.base.log import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Record = dict[str, Any]

TITLES = (
    *("ID", "NAME", "STATUS", "EXIT_CODE", "CREATED_AT", "STARTED_AT", "FINISHED_AT"),
    *("COMMAND", "ARGS"),
)
_NO_EXIT_CODE = -1
_NOT_CREATED = "Not created yet."
_NOT_STARTED = "Not started yet."
_NOT_FINISHED = "n/a"


def fixed_table(records: Sequence[Record]) -> str:
    """Format records as a table with a header."""
    rows = [TITLES, *(cells(record) for record in records)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(TITLES))]
    return "".join(
        " ".join([f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)]).rstrip()
        + "\n"
        for row in rows
    )


def cells(record: Record) -> tuple[str, ...]:
    """Return the cells of a row."""
    program, *args = record["command"] or [""]
    exit_code = record["exit_code"]
    return (
        record["id"],
        record["name"],
        record["status"].capitalize(),
        str(_NO_EXIT_CODE if exit_code is None else exit_code),
        nanoseconds(record["created_at"]) or _NOT_CREATED,
        nanoseconds(record["started_at"]) or _NOT_STARTED,
        nanoseconds(record["finished_at"]) or _NOT_FINISHED,
        plain(program),
        plain(", ".join(args)),
    )


def nanoseconds(time: str | None) -> str:
    """Return a time with nanoseconds, as in ``2026-11-22T10:00:00.120000000Z``; "" for None."""
    if not time:
        return ""
    seconds, _, fraction = time.removesuffix("Z").partition(".")
    return f"{seconds}.{fraction:0<9.9}Z"
