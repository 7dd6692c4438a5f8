"""``ocictl container list``."""

from __future__ import annotations

from ociruntime.cli.output import write
from ociruntime.ocictl.connection import Connection, resource
from ociruntime.ocictl.fixed_table import fixed_table
from ociruntime.ocictl.forms import formatted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """A row for each, the oldest first.  Raises UsageError."""
    records = connection.get(resource("containers", all=True))[::-1]
    form = arguments.text("format")
    return write(formatted(records, form) if form else fixed_table(records))
