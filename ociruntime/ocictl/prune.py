"""``ocictl prune``."""

from __future__ import annotations

from ociruntime.cli.output import write
from ociruntime.ocictl.connection import Connection, resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Prints the ids of those that were removed."""
    del arguments
    removed = connection.post(resource("containers", "prune"))["removed"]
    return write("".join(f"{container_id}\n" for container_id in removed))
