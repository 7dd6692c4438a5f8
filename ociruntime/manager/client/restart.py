"""``ocictl restart``."""

from __future__ import annotations

from ociruntime.manager.client.connection import Connection, container
from ociruntime.manager.client.patience import seconds_to_end
from ociruntime.manager.client.several import each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Restart each container and print its reference.  Raises UsageError."""
    body = seconds_to_end(arguments)
    return each(arguments.positional, lambda ref: connection.post(container(ref, "restart"), body))
