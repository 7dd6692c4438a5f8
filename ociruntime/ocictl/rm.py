"""``ocictl rm``."""

from __future__ import annotations

from ociruntime.ocictl.connection import Connection, container
from ociruntime.ocictl.several import each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Prints what was removed."""
    force = arguments.flag("force")
    return each(arguments.positional, lambda ref: connection.delete(container(ref, force=force)))
