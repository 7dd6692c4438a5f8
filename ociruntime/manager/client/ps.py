"""``ocictl ps`` and its rows, from the daemon's records."""

from __future__ import annotations

import time

from ociruntime.base.errors import UsageError
from ociruntime.base.log import plain
from ociruntime.commandline.formats import ago, aligned, brief, fitted, tabbed
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.forms import Pairs, formatted
from ociruntime.manager.client.options import FILTER, FORMAT, NO_LEGEND, QUIET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Record = dict[str, Any]

# docker's key -> the daemon's, where they differ (manager/containers/manager.py, _FILTERS).
_RENAMED = {"ancestor": "image"}


def as_query(words: Sequence[str], known: Sequence[str]) -> str | None:
    """Return the filters as a JSON object of lists; None without filters.  Raises UsageError."""
    import json

    found: dict[str, list[str]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f'--filter: "{word}" has no value', "KEY=VALUE")
        if key not in known:
            raise UsageError(f'--filter: unknown key "{key}"', ", ".join(known))
        found.setdefault(_RENAMED.get(key, key), []).append(value)
    return json.dumps(found) if found else None


TITLES = ["CONTAINER ID", "IMAGE", "COMMAND", "CREATED", "STATUS", "PORTS", "NAMES"]
SHORT_ID = 12  # digits
_SHORT_COMMAND = 20  # characters
_COLUMNS = 80
# Columns that ``ps`` cuts if the table is too wide, and the fewest characters of each.
_SHRINKING = {TITLES.index("IMAGE"): 5, TITLES.index("COMMAND"): 7, TITLES.index("PORTS"): 5}
_ALL = "0.0.0.0"  # noqa: S104 - nothing is bound here


def row(record: Record, now: float, *, full: bool = False) -> dict[str, Any]:
    """Return the record with the members that ``ps`` formats: status, command, ports ..."""
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
        "networks": record["spec"].get("network") or "default",
        "labels": Pairs(record["labels"]),
    }


def cells(shown: dict[str, Any]) -> list[str]:
    """Return the cells of a row, in the order of ``TITLES``."""
    names = ("id", "image", "command", "created", "status", "ports", "names")
    return [plain(shown[name]) for name in names]


def status(record: Record, now: float) -> str:
    """Format the status: ``Up 3 minutes``, ``Exited (0) 2 hours ago``, ``Created`` ..."""
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
    """Format an argv in quotes, truncated unless ``full``."""
    text = " ".join(argv)
    if not full and len(text) > _SHORT_COMMAND:
        text = text[: _SHORT_COMMAND - 1] + "…"
    return f'"{text}"'


def open_ports(record: Record) -> list[dict[str, Any]]:
    """Return the ports that are published now: none once the container has ended."""
    return list(record["ports"]) if record["status"] in ("running", "paused") else []


def ports(forwarded: list[dict[str, Any]]) -> str:
    """Format published ports as ``127.0.0.1:8080->80/tcp, ...``."""
    return ", ".join(f"{outside(one)}->{one['port']}/{one['protocol']}" for one in forwarded)


def outside(port: dict[str, Any]) -> str:
    """Format the host's side of a port as ``127.0.0.1:8080``; the default is every address."""
    address = port.get("host_ip") or _ALL
    return f"{f'[{address}]' if ':' in address else address}:{port['host_port']}"


def seconds(time: str | None) -> int | None:
    """Convert an RFC 3339 time to seconds since 1970."""
    if not time:
        return None
    from datetime import datetime

    return int(datetime.fromisoformat(time).timestamp())


FILTERS = ("id", "name", "status", "label", "ancestor", "exited", "network")


def run_ps(connection: Connection, arguments: Arguments) -> int:
    """Print the running containers, newest first.  Raises UsageError."""
    last = arguments.number("last", 0)
    if "last" in arguments.numbers and last < 1:
        raise UsageError("--last: must be a number of containers, 1 or more")
    filters = arguments.list("filter")
    # A filter by status or exit code implies --all, as with docker.
    whole = arguments.flag("all") or last > 0
    whole = whole or any(one.startswith(("status=", "exited=")) for one in filters)
    query = as_query(filters, FILTERS)
    records = connection.get(resource("containers", all=whole, filters=query))
    records = records[:last] if last else records
    if form := arguments.text("format"):
        if form == "json":
            return write(formatted(records, form))
        full = arguments.flag("no-trunc")
        return write(formatted([row(one, time.time(), full=full) for one in records], form))
    full = arguments.flag("no-trunc")
    shown = [row(record, time.time(), full=full) for record in records]
    if arguments.flag("quiet"):
        return write("".join(f"{one['id']}\n" for one in shown))
    titles = [] if arguments.flag("no-legend") else [TITLES]
    rows = [*titles, *map(cells, shown)]
    return write(tabbed(rows) if full else table(rows, width()))


def width() -> int:
    """Return the columns of the terminal, at least 80; 80 if standard output is no terminal."""
    import os

    try:
        return max(os.get_terminal_size(1).columns, _COLUMNS)
    except OSError:
        return _COLUMNS


def table(rows: list[list[str]], columns: int) -> str:
    """Format rows of ``cells`` to fit the columns: shorter times first, then cells that are cut.

    IDs and names stay whole.
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
            Option("no-trunc", "do not truncate anything"),
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
