"""``ocictl pod stop``."""

from __future__ import annotations

from ociruntime.ocictl.connection import Connection, resource
from ociruntime.ocictl.patience import seconds_to_end
from ociruntime.ocictl.several import each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Returns when they have ended.  Raises UsageError."""
    body = seconds_to_end(arguments)
    return each(
        arguments.positional, lambda uuid: connection.post(resource("pods", uuid, "stop"), body)
    )
