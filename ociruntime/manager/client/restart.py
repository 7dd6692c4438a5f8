"""``ocictl restart``."""

from __future__ import annotations

from ociruntime.manager.client.connection import Connection, container
from ociruntime.manager.client.each_reference import each
from ociruntime.manager.client.stop_timeout import seconds_to_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Restart each container and print its reference.  Raises UsageError."""
    body = seconds_to_end(arguments)
    return each(arguments.positional, lambda ref: connection.post(container(ref, "restart"), body))
