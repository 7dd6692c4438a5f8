"""``ocictl port``."""

from __future__ import annotations

from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import Connection, container
from ociruntime.manager.client.ps_table import outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Print a line for each published port, as in ``80/tcp -> 0.0.0.0:8080``."""
    ports = connection.get(container(arguments.positional[0]))["ports"]
    return write("".join(f"{one['port']}/{one['protocol']} -> {outside(one)}\n" for one in ports))
