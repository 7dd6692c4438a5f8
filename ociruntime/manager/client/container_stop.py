"""``ocictl container stop``."""

from __future__ import annotations

from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import Connection, container
from ociruntime.manager.client.stop_timeout import seconds_to_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Stop a container and print its id.  Raises UsageError."""
    path = container(arguments.positional[0], "stop", strict=True)
    answer = connection.post(path, seconds_to_end(arguments))
    return write(f"stopped: {answer['id']}\n")
