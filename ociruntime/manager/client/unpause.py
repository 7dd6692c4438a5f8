"""``ocictl unpause``."""

from __future__ import annotations

from ociruntime.manager.client.connection import Connection, container
from ociruntime.manager.client.each_reference import each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Resume each container and print its reference."""
    return each(arguments.positional, lambda ref: connection.post(container(ref, "unpause")))
