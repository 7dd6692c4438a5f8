"""``ocictl pod stop``."""

from __future__ import annotations

from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.each_reference import each
from ociruntime.manager.client.stop_timeout import seconds_to_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Stop each pod and wait for its end.  Raises UsageError."""
    body = seconds_to_end(arguments)
    return each(
        arguments.positional, lambda uuid: connection.post(resource("pods", uuid, "stop"), body)
    )
