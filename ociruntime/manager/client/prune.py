"""``ocictl prune``."""

from __future__ import annotations

from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import Connection, resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Remove stopped containers and print their ids."""
    del arguments
    removed = connection.post(resource("containers", "prune"))["removed"]
    return write("".join(f"{container_id}\n" for container_id in removed))
