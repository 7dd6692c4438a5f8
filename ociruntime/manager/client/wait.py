"""``ocictl wait``."""

from __future__ import annotations

from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import Connection, container
from ociruntime.manager.client.exit_status import exit_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Wait for each container, print its exit code, and return the last one.

    Raises RuntimeFailure if an exit code is unknown.
    """
    status = 0
    for ref in arguments.positional:
        status = exit_status(ref, connection.post(container(ref, "wait")))
        write(f"{status}\n")
    return status
