"""``ocictl stats``."""

from __future__ import annotations

from ociruntime.commandline.columns import tabbed
from ociruntime.commandline.output import write
from ociruntime.commandline.progress import amount
from ociruntime.manager.client.connection import Connection, container, resource
from ociruntime.manager.client.forms import formatted
from ociruntime.manager.client.ps_table import SHORT_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.commandline.parser import Arguments

_TITLES = ["CONTAINER ID", "NAME", "CPU SECONDS", "MEMORY", "LIMIT", "PIDS"]
_NONE = "-"


def run(connection: Connection, arguments: Arguments) -> int:
    """Print the current resource usage of each container.  Raises UsageError."""
    refs = arguments.positional or [one["id"] for one in connection.get(resource("containers"))]
    found = [connection.get(container(ref, "stats")) for ref in refs]
    if form := arguments.text("format"):
        return write(formatted(found, form))
    return write(tabbed([_TITLES, *map(_cells, found)]))


def _cells(one: dict[str, Any]) -> list[str]:
    cpu = one["cpu_seconds"]
    return [
        one["id"][:SHORT_ID],
        one["name"],
        _NONE if cpu is None else f"{cpu:.2f}",
        *(_NONE if one[key] is None else amount(one[key]) for key in ("memory", "memory_limit")),
        _NONE if one["pids"] is None else str(one["pids"]),
    ]
