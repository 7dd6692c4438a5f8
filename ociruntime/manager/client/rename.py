"""``ocictl rename``."""

from __future__ import annotations

from ociruntime.manager.client.connection import Connection, container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Rename a container; print nothing."""
    ref, name = arguments.positional
    connection.post(container(ref, "rename"), {"name": name})
    return 0
