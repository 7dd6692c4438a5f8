"""``ocictl ps``."""

from __future__ import annotations

import time

from ociruntime.base.errors import UsageError
from ociruntime.commandline.columns import tabbed
from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.filters import as_query
from ociruntime.manager.client.forms import formatted
from ociruntime.manager.client.ps_table import TITLES, cells, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments

FILTERS = ("id", "name", "status", "label", "ancestor", "exited")


def run(connection: Connection, arguments: Arguments) -> int:
    """Print the running containers, newest first.  Raises UsageError."""
    last = arguments.number("last", 0)
    if "last" in arguments.numbers and last < 1:
        raise UsageError("--last: must be a number of containers, 1 or more")
    filters = arguments.list("filter")
    # A filter by status or exit code implies --all, as with docker.
    whole = arguments.flag("all") or last > 0
    whole = whole or any(one.startswith(("status=", "exited=")) for one in filters)
    query = as_query(filters, FILTERS)
    records = connection.get(resource("containers", all=whole, filters=query))
    records = records[:last] if last else records
    if form := arguments.text("format"):
        if form == "json":
            return write(formatted(records, form))
        full = arguments.flag("no-trunc")
        return write(formatted([row(one, time.time(), full=full) for one in records], form))
    full = arguments.flag("no-trunc")
    shown = [row(record, time.time(), full=full) for record in records]
    if arguments.flag("quiet"):
        return write("".join(f"{one['id']}\n" for one in shown))
    titles = [] if arguments.flag("no-legend") else [TITLES]
    return write(tabbed([*titles, *map(cells, shown)]))
