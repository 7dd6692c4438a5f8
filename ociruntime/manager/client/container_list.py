"""``ocictl container list``."""

from __future__ import annotations

from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.fixed_table import fixed_table
from ociruntime.manager.client.forms import formatted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Print all containers as a table, oldest first.  Raises UsageError."""
    records = connection.get(resource("containers", all=True))[::-1]
    form = arguments.text("format")
    return write(formatted(records, form) if form else fixed_table(records))
