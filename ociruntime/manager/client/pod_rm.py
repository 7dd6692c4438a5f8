"""``ocictl pod rm``."""

from __future__ import annotations

from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.each_reference import each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Remove each pod and print its UUID."""
    return each(arguments.positional, lambda uuid: connection.delete(resource("pods", uuid)))
