"""Commands that show single containers: ``inspect``, ``top``, ``port``."""

from __future__ import annotations

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.base.log import plain
from ociruntime.commandline.formats import tabbed
from ociruntime.commandline.options import Command
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.manager.client.connection import Connection, container
from ociruntime.manager.client.containers import FAILED, print_failure
from ociruntime.manager.client.forms import formatted
from ociruntime.manager.client.options import FORMAT
from ociruntime.manager.client.ps import open_ports, outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def run_inspect(connection: Connection, arguments: Arguments) -> int:
    """Print the containers that exist; return 1 if one was not found.  Raises UsageError."""
    return show_each(arguments, lambda ref: connection.get(container(ref)))


def show_each(arguments: Arguments, get: Callable[[str], Any]) -> int:
    """Print what ``get`` returns for each argument, as JSON or in the format of ``--format``.

    Print the error of one that it cannot get, and return 1 then.  Raises UsageError, and HostError
    if the daemon cannot be reached.
    """
    status = 0
    found = []
    for ref in arguments.positional:
        try:
            found.append(get(ref))
        except HostError:
            raise
        except RuntimeFailure as failure:
            print_failure(failure)
            status = FAILED
    if form := arguments.text("format"):
        return write(formatted(found, form)) or status
    import json

    return write(json.dumps(found, indent=2) + "\n") or status


_TOP_COLUMNS = ("pid", "ppid", "user", "cpu_seconds", "memory", "command")


def run_top(connection: Connection, arguments: Arguments) -> int:
    """Print a line for each process; PIDs are those of the host.  Raises UsageError."""
    processes = connection.get(container(arguments.positional[0], "top"))["processes"]
    if form := arguments.text("format"):
        return write(formatted(processes, form))
    from ociruntime.commandline.progress import amount

    rows = [[name.replace("_", " ").upper() for name in _TOP_COLUMNS]]
    for one in processes:
        cells = [str(one[name]) for name in ("pid", "ppid", "user")]
        rows.append(
            [*cells, f"{one['cpu_seconds']:.2f}", amount(one["memory"]), plain(one["command"])]
        )
    return write(tabbed(rows))


def run_port(connection: Connection, arguments: Arguments) -> int:
    """Print a line for each published port, as in ``80/tcp -> 0.0.0.0:8080``."""
    ports = open_ports(connection.get(container(arguments.positional[0])))
    return write("".join(f"{one['port']}/{one['protocol']} -> {outside(one)}\n" for one in ports))


COMMANDS = (
    Command(
        "inspect CONTAINER...",
        "show details of containers as JSON",
        run_inspect,
        options=(FORMAT,),
        examples=(
            ("Print its IP address", "ocictl inspect --format '{{.Addresses.Default}}' web"),
        ),
    ),
    Command("top CONTAINER", "list the processes of a container", run_top, options=(FORMAT,)),
    Command("port CONTAINER", "list the published ports of a container", run_port),
)
