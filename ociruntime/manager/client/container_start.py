"""``ocictl container start``."""

from __future__ import annotations

from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import Connection, container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Start a container and print its id."""
    answer = connection.post(container(arguments.positional[0], "start", strict=True))
    return write(f"started: {answer['id']}\n")
