"""``ocictl stats``: the resource usage of containers, live at a terminal."""

from __future__ import annotations

import os
import time

from ociruntime.commandline.formats import aligned
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import amount
from ociruntime.manager.client.connection import Connection, DaemonError, container, resource
from ociruntime.manager.client.format_option import chosen, formatted
from ociruntime.manager.client.options import FORMAT
from ociruntime.manager.client.ps import SHORT_ID
from ociruntime.manager.client.template_functions import Shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Record = dict[str, Any]

TITLES = [
    *("CONTAINER ID", "NAME", "CPU %", "MEM USAGE / LIMIT", "MEM %", "NET I/O", "BLOCK I/O", "PIDS")
]
_NONE = "--"
_INTERVAL = 1.0  # seconds between two refreshes
_SHORT_INTERVAL = 0.5  # the same for the first one, whose CPU usage needs two samples
_GONE = 404
_CLEAR = "\x1b[H\x1b[J"


class Meter:
    """The usage of containers between two samples."""

    def __init__(self, connection: Connection, refs: list[str]) -> None:
        self._connection = connection
        self._refs = refs  # empty: those that are running
        self._before: dict[str, tuple[float, float]] = {}  # id -> time, CPU seconds

    def sample(self, *, first: bool = False) -> list[Record]:
        """Return the usage of each container, with ``cpu_percent`` since the last sample.

        A container that has been removed is left out, but an error the ``first`` time.
        Raises DaemonError, HostError.
        """
        connection = self._connection
        refs = self._refs or [one["id"] for one in connection.get(resource("containers"))]
        result = []
        for ref in refs:
            try:
                one = connection.get(container(ref, "stats"))
            except DaemonError as error:
                if error.status != _GONE or (first and self._refs):
                    raise
                continue
            result.append(one | {"cpu_percent": self._cpu_percent(one, time.monotonic())})
        return result

    def _cpu_percent(self, one: Record, now: float) -> float | None:
        """Return the CPU usage since the last sample, in percent of one CPU."""
        cpu: float | None = one["cpu_seconds"]
        if cpu is None:
            self._before.pop(one["id"], None)
            return None
        before, self._before[one["id"]] = self._before.get(one["id"]), (now, cpu)
        if before is None or now <= before[0]:
            return None
        # A restart begins at 0 again.
        return round(max(cpu - before[1], 0.0) / (now - before[0]) * 100, 2)


def run_stats(connection: Connection, arguments: Arguments) -> int:
    """Print the usage of each container, refreshed at a terminal until interrupted.

    Raises UsageError.
    """
    meter = Meter(connection, arguments.positional)
    form = chosen(arguments)
    live = os.isatty(1) and not form and not arguments.flag("no-stream")
    try:
        if meter.sample(first=True):
            time.sleep(_SHORT_INTERVAL)
        found = meter.sample()
        if form:
            rows = found if form == "json" else [shape(one) for one in found]
            return write(formatted(rows, form, _FIELD_TITLES))
        while live:
            if write(_CLEAR + table(found)):
                return 1
            time.sleep(_INTERVAL)
            found = meter.sample()
    except KeyboardInterrupt:
        if live:
            return 0
        raise
    return write(table(found))


def table(found: list[Record]) -> str:
    """Format the usage of containers as a table."""
    return aligned([TITLES, *map(cells, found)], gap=2)


# Fields of docker in the order of ``TITLES``; MemUsage has the limit, too.
_FIELDS = ("ID", "Name", "CPUPerc", "MemUsage", "MemPerc", "NetIO", "BlockIO", "PIDs")
_FIELD_TITLES = {**dict(zip(_FIELDS, TITLES, strict=True)), "Container": "CONTAINER"}


def shape(one: Record) -> Shape:
    """Return a row with docker's names for templates, the daemon's besides."""
    members = dict(zip(_FIELDS, cells(one), strict=True))
    return Shape({**members, "Container": one["id"]}, one)


def cells(one: Record) -> list[str]:
    """Return the cells of a row, in the order of ``TITLES``."""
    memory, limit = one["memory"], one["memory_limit"]
    return [
        one["id"][:SHORT_ID],
        one["name"],
        _percent(one["cpu_percent"]),
        _pair(memory, limit),
        _percent(100 * memory / limit if memory is not None and limit else None),
        _pair(one["network_received"], one["network_sent"]),
        _pair(one["block_read"], one["block_written"]),
        _NONE if one["pids"] is None else str(one["pids"]),
    ]


def _percent(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}%"


def _pair(first: int | None, second: int | None) -> str:
    return " / ".join([_NONE if value is None else amount(value) for value in (first, second)])


COMMANDS = (
    Command(
        "stats [CONTAINER]...",
        "show resource usage of containers",
        run_stats,
        options=(Option("no-stream", "print once, also at a terminal"), FORMAT),
        details=(
            "Default: all running containers. Refreshed every second at a terminal, otherwise\n"
            "printed once. CPU % is of one CPU: 200% are two."
        ),
        examples=(
            ("Print the usage of one container once", "ocictl stats --no-stream web"),
            ("Choose the fields", "ocictl stats --format '{{.Name}} {{.CpuPercent}}'"),
        ),
    ),
)
