"""``ocictl container delete``."""

from __future__ import annotations

from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import Connection, container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Remove a stopped container and print its id."""
    ref = arguments.positional[0]
    container_id = connection.get(container(ref))["id"]
    connection.delete(container(container_id))
    return write(f"deleted: {container_id}\n")
