"""``ocictl container stop``."""

from __future__ import annotations

from ociruntime.cli.output import write
from ociruntime.ocictl.connection import Connection, container
from ociruntime.ocictl.patience import seconds_to_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Prints its id.  Raises UsageError."""
    path = container(arguments.positional[0], "stop", strict=True)
    answer = connection.post(path, seconds_to_end(arguments))
    return write(f"stopped: {answer['id']}\n")
