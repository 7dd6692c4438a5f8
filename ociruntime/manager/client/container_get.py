"""``ocictl container get``."""

from __future__ import annotations

from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import Connection, container
from ociruntime.manager.client.fixed_table import fixed_table
from ociruntime.manager.client.forms import formatted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Print a container as a table of one row.  Raises UsageError."""
    records = [connection.get(container(arguments.positional[0]))]
    form = arguments.text("format")
    return write(formatted(records, form) if form else fixed_table(records))
