"""``ocictl create``."""

from __future__ import annotations

from ociruntime.cli.output import write
from ociruntime.ocictl.connection import Connection
from ociruntime.ocictl.new_container import created

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Prints its id.  Raises UsageError."""
    return write(f"{created(connection, arguments)['id']}\n")
