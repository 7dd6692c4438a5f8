"""`ociruntime list`."""

from __future__ import annotations

from ociruntime.base.log import plain
from ociruntime.commandline.output import write, write_lines
from ociruntime.runtime.lifecycle.list import list_containers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context

_COLUMNS = ("id", "pid", "status", "bundle", "created", "owner")
_NARROWEST = 12
_GAP = 3


def run(context: Context, arguments: Arguments) -> int:
    """Print the containers; the ids alone win over any format, as with runc.

    Without containers the JSON is ``[]``, where runc prints ``null``: its readers, written in
    Go, take either, and everybody else expects a list.
    """
    containers = list_containers(context)
    if arguments.flag("quiet"):
        return write_lines([container["id"] for container in containers])
    if arguments.text("format") == "json":
        from ociruntime.base.json_text import dump

        return write(dump(containers) + "\n")
    rows = [[plain(str(container.get(key, ""))) for key in _COLUMNS] for container in containers]
    return write(table([[key.upper() for key in _COLUMNS], *rows]))


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, the last one ragged: the layout scripts know."""
    widths = [max(_NARROWEST, max(map(len, column)) + _GAP) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        lines.append("".join(padded) + row[-1] + "\n")
    return "".join(lines)
