"""``ocictl container get``."""

from __future__ import annotations

from ociruntime.cli.output import write
from ociruntime.ocictl.connection import Connection, container
from ociruntime.ocictl.fixed_table import fixed_table
from ociruntime.ocictl.forms import formatted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """A table of one row.  Raises UsageError."""
    records = [connection.get(container(arguments.positional[0]))]
    form = arguments.text("format")
    return write(formatted(records, form) if form else fixed_table(records))
