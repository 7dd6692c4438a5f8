"""``ocictl container start``."""

from __future__ import annotations

from ociruntime.cli.output import write
from ociruntime.ocictl.connection import Connection, container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Prints its id."""
    answer = connection.post(container(arguments.positional[0], "start", strict=True))
    return write(f"started: {answer['id']}\n")
