"""``ocictl top``."""

from __future__ import annotations

from ociruntime.base.log import plain
from ociruntime.commandline.columns import tabbed
from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import Connection, container
from ociruntime.manager.client.forms import formatted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments

_COLUMNS = ("pid", "ppid", "user", "cpu_seconds", "memory", "command")


def run(connection: Connection, arguments: Arguments) -> int:
    """Print a line for each process; PIDs are those of the host.  Raises UsageError."""
    processes = connection.get(container(arguments.positional[0], "top"))["processes"]
    if form := arguments.text("format"):
        return write(formatted(processes, form))
    from ociruntime.commandline.progress import amount

    rows = [[name.replace("_", " ").upper() for name in _COLUMNS]]
    for one in processes:
        cells = [str(one[name]) for name in ("pid", "ppid", "user")]
        rows.append(
            [*cells, f"{one['cpu_seconds']:.2f}", amount(one["memory"]), plain(one["command"])]
        )
    return write(tabbed(rows))
