"""``ocictl ps``: the table of containers."""

from __future__ import annotations

import time
from typing import Any, TypeAlias

from ociruntime.base.errors import UsageError
from ociruntime.base.log import plain
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import amount
from ociruntime.commandline.tables_and_times import ago, aligned, brief, date, fitted, tabbed
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.filter_option import as_query
from ociruntime.manager.client.format_option import chosen, formatted
from ociruntime.manager.client.options import FILTER, FORMAT, NO_LEGEND, QUIET
from ociruntime.manager.client.template_functions import Pairs, Shape

Record: TypeAlias = dict[str, Any]

TITLES = ["CONTAINER ID", "IMAGE", "COMMAND", "CREATED", "STATUS", "PORTS", "NAMES"]
SHORT_ID = 12  # digits
_SHORT_COMMAND = 20  # characters
_COLUMNS = 80
# Columns that ``ps`` truncates if the table is too wide -> minimum width in characters.
_SHRINKING = {TITLES.index("IMAGE"): 5, TITLES.index("COMMAND"): 7, TITLES.index("PORTS"): 5}
_ALL = "0.0.0.0"  # noqa: S104 - nothing is bound here


def row(record: Record, now: float, *, full: bool = False) -> dict[str, Any]:
    """Return the JSON of a container with status, times and ports formatted for ``ps``.

    ``now`` is the current time in seconds since the epoch.  With ``full``, nothing is truncated.
    """
    return {
        **record,
        "id": record["id"] if full else record["id"][:SHORT_ID],
        "image": record["image"] or record["rootfs"] or "",
        "command": command(record["command"], full=full),
        "created": ago(seconds(record["created_at"]), now),
        "state": record["status"],
        "status": status(record, now),
        "ports": ports(open_ports(record)),
        "names": record["name"],
        "size": amount(record["size"]) if record.get("size") is not None else "",
        "networks": record["spec"].get("network") or "default",
        "labels": Pairs(record["labels"]),
    }


# Field of a template -> title of its column, as in docker.
_FIELD_TITLES = {"ID": "CONTAINER ID", "RunningFor": "CREATED", "LocalVolumes": "LOCAL VOLUMES"}
_STATES = {"stopped": "exited", "unknown": "dead", "corrupt": "dead"}  # ocid -> docker


def shape(shown: dict[str, Any]) -> Shape:
    """Return a container as data for ``--format``, with the field names of docker and of ocid.

    ``shown`` is the result of ``row``.
    """
    spec, labels = shown["spec"], shown["labels"]
    volumes = spec.get("volumes") or ()
    named = [one["name"] for one in volumes if "name" in one]
    members = {
        "Command": shown["command"],
        "CreatedAt": date(seconds(shown["created_at"])),
        "ID": shown["id"],
        "Image": shown["image"],
        "Labels": labels,
        "LocalVolumes": str(len(named)),
        "Mounts": ",".join(one.get("name") or one.get("source") or "" for one in volumes),
        "Names": shown["names"],
        "Networks": networks(spec),
        "Ports": shown["ports"],
        "RunningFor": shown["created"],
        "State": _STATES.get(shown["state"], shown["state"]),
        "Status": shown["status"],
    }
    return Shape(members, shown, {"Label": lambda name: labels.get(name, "")})


def networks(spec: dict[str, Any]) -> str:
    """Return the names of a container's networks, joined by commas."""
    entries = (spec.get("network") or "default").split(",")
    return ",".join(entry.partition(":")[0] for entry in entries if entry)


def cells(shown: dict[str, Any]) -> list[str]:
    """Return a container's row in the table: the cells in the order of ``TITLES``.

    ``shown`` is the result of ``row``.
    """
    names = ("id", "image", "command", "created", "status", "ports", "names")
    return [plain(shown[name]) for name in names]


def status(record: Record, now: float) -> str:
    """Format a container's status: ``Up 3 minutes``, ``Exited (0) 2 hours ago``, ``Created``."""
    current = record["status"]
    if current in ("running", "paused"):
        since = ago(seconds(record["started_at"]), now).removesuffix(" ago")
        up = "Up less than a second" if since in ("", "now") else f"Up {since}"
        return f"{up} (Paused)" if current == "paused" else up
    if current == "stopped":
        code = "?" if record["exit_code"] is None else record["exit_code"]
        return f"Exited ({code}) {ago(seconds(record['finished_at']), now)}".rstrip()
    return str(current).capitalize()


def command(argv: list[str], *, full: bool) -> str:
    """Format a container's argv in quotes, truncated to 20 characters unless ``full``."""
    text = " ".join(argv)
    if not full and len(text) > _SHORT_COMMAND:
        text = text[: _SHORT_COMMAND - 1] + "…"
    return f'"{text}"'


def open_ports(record: Record) -> list[dict[str, Any]]:
    """Return a container's published ports; [] if it is not running."""
    if record["status"] not in ("running", "paused"):
        return []
    return [{**port, "protocol": port.get("protocol") or "tcp"} for port in record["ports"]]


def ports(forwarded: list[dict[str, Any]]) -> str:
    """Format published ports as ``127.0.0.1:8080->80/tcp, ...``."""
    return ", ".join(f"{outside(port)}->{port['port']}/{port['protocol']}" for port in forwarded)


def outside(port: dict[str, Any]) -> str:
    """Format the host's address and port of a published port, such as ``0.0.0.0:8080``."""
    address = port.get("host_ip") or _ALL
    return f"{f'[{address}]' if ':' in address else address}:{port['host_port']}"


def seconds(time: str | None) -> int | None:
    """Convert an RFC 3339 time to seconds since the epoch; None if it is empty."""
    if not time:
        return None
    from datetime import datetime

    return int(datetime.fromisoformat(time).timestamp())


FILTERS = ("id", "name", "status", "label", "ancestor", "exited", "network")


def run_ps(connection: Connection, arguments: Arguments) -> int:
    """Print a table of containers, newest first.

    Raises UsageError for an invalid option.
    """
    last = arguments.number("last", 1 if arguments.flag("latest") else 0)
    if "last" in arguments.numbers and last < 1:
        raise UsageError(f"--last: must be 1 or more, not {last}")
    filters = arguments.list("filter")
    # A filter by status or exit code implies --all, as it does in docker.
    whole = arguments.flag("all") or last > 0
    whole = whole or any(one.startswith(("status=", "exited=")) for one in filters)
    query = as_query(filters, FILTERS)
    # A format that contains .Size implies --size, as it does in docker.
    sized = arguments.flag("size") or ".Size" in arguments.text("format")
    records = connection.get(resource("containers", all=whole, filters=query, size=sized))
    records = records[:last] if last else records
    form, full = chosen(arguments), arguments.flag("no-trunc")
    if form == "json":
        return write(formatted(records, form))
    shown = [row(record, time.time(), full=full) for record in records]
    if form:
        return write(formatted(list(map(shape, shown)), form, _FIELD_TITLES))
    if arguments.flag("quiet"):
        return write("".join(f"{one['id']}\n" for one in shown))
    rows = [] if arguments.flag("no-legend") else [[*TITLES, "SIZE"]]
    rows += [[*cells(one), one["size"]] for one in shown]
    rows = rows if sized else [one[:-1] for one in rows]
    return write(tabbed(rows) if full else table(rows, width()))


def width() -> int:
    """Return the terminal's width in columns, at least 80.

    Returns 80 if standard output is not a terminal.
    """
    import os

    try:
        return max(os.get_terminal_size(1).columns, _COLUMNS)
    except OSError:
        return _COLUMNS


def table(rows: list[list[str]], columns: int) -> str:
    """Format rows as a table that is at most ``columns`` characters wide, if possible.

    Shortens times, then truncates images, commands and ports; never truncates IDs and names.
    """
    rows = fitted(rows, columns, {})
    if rows and _width(rows) > columns:
        rows = [[*row[:3], brief(row[3]), brief(row[4]), *row[5:]] for row in rows]
    return aligned(fitted(rows, columns, _SHRINKING), gap=2)


def _width(rows: list[list[str]]) -> int:
    return sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True)) - 2


COMMANDS = (
    Command(
        "ps",
        "list running containers",
        run_ps,
        options=(
            Option("all", "show all containers, not only running ones", short="a"),
            QUIET,
            Option(
                "last", "show the N latest containers, in any state", "N", kind="number", short="n"
            ),
            Option("latest", "show the latest container, in any state", short="l"),
            Option("no-trunc", "do not truncate anything"),
            Option("size", "show how much each container has written", short="s"),
            NO_LEGEND,
            FILTER,
            FORMAT,
        ),
        details=(
            "Filters: id, name, label, ancestor (image), network, exited (exit code), status\n"
            "(created, running, paused, exited, restarting, removing, unknown, corrupt)."
        ),
        examples=(
            ("List all containers", "ocictl ps --all"),
            ("Print the names of failed containers", "ocictl ps -f exited=1 --format '{{.Name}}'"),
            ("Choose the columns", "ocictl ps --format 'table Name,Status,ExitCode'"),
        ),
    ),
)
