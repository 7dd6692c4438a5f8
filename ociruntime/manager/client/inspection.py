"""Commands that show single containers: ``inspect``, ``stats``, ``top``, ``port``."""

from __future__ import annotations

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.base.log import plain
from ociruntime.commandline.formats import tabbed
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import amount
from ociruntime.manager.client.connection import Connection, container, resource
from ociruntime.manager.client.containers import FAILED, print_failure
from ociruntime.manager.client.forms import formatted
from ociruntime.manager.client.options import FORMAT
from ociruntime.manager.client.ps import SHORT_ID, open_ports, outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def run_inspect(connection: Connection, arguments: Arguments) -> int:
    """Print the containers that exist; return 1 if one was not found.  Raises UsageError."""
    status = 0
    records = []
    for ref in arguments.positional:
        try:
            records.append(connection.get(container(ref)))
        except HostError:
            raise
        except RuntimeFailure as failure:
            print_failure(failure)
            status = FAILED
    if form := arguments.text("format"):
        return write(formatted(records, form)) or status
    import json

    return write(json.dumps(records, indent=2) + "\n") or status


_STATS_TITLES = ["CONTAINER ID", "NAME", "CPU SECONDS", "MEMORY", "LIMIT", "PIDS"]
_NONE = "-"


def run_stats(connection: Connection, arguments: Arguments) -> int:
    """Print the current resource usage of each container.  Raises UsageError."""
    refs = arguments.positional or [one["id"] for one in connection.get(resource("containers"))]
    found = [connection.get(container(ref, "stats")) for ref in refs]
    if form := arguments.text("format"):
        return write(formatted(found, form))
    return write(tabbed([_STATS_TITLES, *map(_stats_cells, found)]))


def _stats_cells(one: dict[str, Any]) -> list[str]:
    cpu = one["cpu_seconds"]
    return [
        one["id"][:SHORT_ID],
        one["name"],
        _NONE if cpu is None else f"{cpu:.2f}",
        *(_NONE if one[key] is None else amount(one[key]) for key in ("memory", "memory_limit")),
        _NONE if one["pids"] is None else str(one["pids"]),
    ]


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
    Command(
        "stats [CONTAINER]...",
        "show resource usage of containers",
        run_stats,
        options=(FORMAT, Option("no-stream")),
        details="Default: all running containers.",
    ),
    Command("top CONTAINER", "list the processes of a container", run_top, options=(FORMAT,)),
    Command("port CONTAINER", "list the published ports of a container", run_port),
)
