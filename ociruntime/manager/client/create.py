"""``ocictl create``."""

from __future__ import annotations

from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import Connection
from ociruntime.manager.client.new_container import created

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Create a container and print its id.  Raises UsageError."""
    return write(f"{created(connection, arguments)['id']}\n")
