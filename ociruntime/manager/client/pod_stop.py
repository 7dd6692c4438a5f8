"""``ocictl pod stop``."""

from __future__ import annotations

from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.patience import seconds_to_end
from ociruntime.manager.client.several import each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Stop each pod and wait for its end.  Raises UsageError."""
    body = seconds_to_end(arguments)
    return each(
        arguments.positional, lambda uuid: connection.post(resource("pods", uuid, "stop"), body)
    )
