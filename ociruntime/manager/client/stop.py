"""``ocictl stop``."""

from __future__ import annotations

from ociruntime.manager.client.connection import Connection, container
from ociruntime.manager.client.each_reference import each
from ociruntime.manager.client.stop_timeout import seconds_to_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Stop each container and wait for its exit.  Raises UsageError."""
    body = seconds_to_end(arguments)
    return each(arguments.positional, lambda ref: connection.post(container(ref, "stop"), body))
