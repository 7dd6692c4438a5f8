"""``ocictl wait``."""

from __future__ import annotations

from ociruntime.cli.output import write
from ociruntime.ocictl.connection import Connection, container
from ociruntime.ocictl.ended import exit_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """The exit status of the last one.  Raises RuntimeFailure: nobody knows how one ended."""
    status = 0
    for ref in arguments.positional:
        status = exit_status(ref, connection.post(container(ref, "wait")))
        write(f"{status}\n")
    return status
