"""``ocictl rename``."""

from __future__ import annotations

from ociruntime.ocictl.connection import Connection, container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Prints nothing."""
    ref, name = arguments.positional
    connection.post(container(ref, "rename"), {"name": name})
    return 0
