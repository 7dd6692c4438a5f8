"""``ocictl stats``: print the resource usage of containers, refreshed at a terminal."""

from __future__ import annotations

import os
import time
from typing import Any, TypeAlias

from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import amount
from ociruntime.commandline.tables_and_times import aligned
from ociruntime.manager.client.connection import Connection, DaemonError, container, resource
from ociruntime.manager.client.format_option import chosen, formatted
from ociruntime.manager.client.options import FORMAT
from ociruntime.manager.client.ps import SHORT_ID
from ociruntime.manager.client.refused_options import refused
from ociruntime.manager.client.template_functions import Shape

Record: TypeAlias = dict[str, Any]

TITLES = [
    *("CONTAINER ID", "NAME", "CPU %", "MEM USAGE / LIMIT", "MEM %", "NET I/O", "BLOCK I/O", "PIDS")
]
_NONE = "--"
_INTERVAL = 1.0  # seconds between two refreshes
_SHORT_INTERVAL = 0.5  # seconds until the second sample: CPU usage is computed from two samples
_GONE = 404
_CLEAR = "\x1b[H\x1b[J"


class Meter:
    """Take successive samples of the resource usage of containers.

    ``refs`` lists names or ids; if it is empty, samples the containers that ``ps`` lists.
    """

    def __init__(self, connection: Connection, refs: list[str]) -> None:
        self._connection = connection
        self._refs = refs  # empty: the containers that ``ps`` lists
        self._before: dict[str, tuple[float, float]] = {}  # id -> time, CPU seconds

    def sample(self, *, first: bool = False) -> list[Record]:
        """Return ocid's ``stats`` of each container, with ``cpu_percent`` since the last sample.

        Omits containers that no longer exist; in the ``first`` sample, a container in ``refs`` that
        does not exist is an error.  Raises the errors of ``Connection``.
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

    def _cpu_percent(self, stats: Record, now: float) -> float | None:
        """Return a container's CPU usage since its last sample, in percent of one CPU.

        ``now`` is the monotonic time of this sample in seconds.  Returns None if there is no
        earlier sample, or if the usage is unknown.
        """
        cpu: float | None = stats["cpu_seconds"]
        if cpu is None:
            self._before.pop(stats["id"], None)
            return None
        before, self._before[stats["id"]] = self._before.get(stats["id"]), (now, cpu)
        if before is None or now <= before[0]:
            return None
        # At a restart of the container, its CPU counter restarts at 0: avoid a negative usage.
        return round(max(cpu - before[1], 0.0) / (now - before[0]) * 100, 2)


def run_stats(connection: Connection, arguments: Arguments) -> int:
    """Print the resource usage of containers, refreshed at a terminal until interrupted.

    Raises UsageError for an invalid option.
    """
    meter = Meter(connection, arguments.positional)
    form = chosen(arguments)
    live = os.isatty(1) and not form and not arguments.flag("no-stream")
    try:
        if meter.sample(first=True):
            time.sleep(_SHORT_INTERVAL)
        samples = meter.sample()
        if form:
            rows = samples if form == "json" else [shape(sample) for sample in samples]
            return write(formatted(rows, form, _FIELD_TITLES))
        while live:
            if write(_CLEAR + table(samples)):
                return 1
            time.sleep(_INTERVAL)
            samples = meter.sample()
    except KeyboardInterrupt:
        if live:
            return 0
        raise
    return write(table(samples))


def table(samples: list[Record]) -> str:
    """Format the resource usage of containers as a table with a header."""
    return aligned([TITLES, *map(cells, samples)], gap=2)


# Docker's field names in the order of ``TITLES``; MemUsage also contains the limit.
_FIELDS = ("ID", "Name", "CPUPerc", "MemUsage", "MemPerc", "NetIO", "BlockIO", "PIDs")
_FIELD_TITLES = {**dict(zip(_FIELDS, TITLES, strict=True)), "Container": "CONTAINER"}


def shape(sample: Record) -> Shape:
    """Return a sample as data for ``--format``, with the field names of docker and of ocid."""
    members = dict(zip(_FIELDS, cells(sample), strict=True))
    return Shape({**members, "Container": sample["id"]}, sample)


def cells(sample: Record) -> list[str]:
    """Return a container's row in the table: the cells in the order of ``TITLES``."""
    memory, limit = sample["memory"], sample["memory_limit"]
    return [
        sample["id"][:SHORT_ID],
        sample["name"],
        _percent(sample["cpu_percent"]),
        _pair(memory, limit),
        _percent(100 * memory / limit if memory is not None and limit else None),
        _pair(sample["network_received"], sample["network_sent"]),
        _pair(sample["block_read"], sample["block_written"]),
        _NONE if sample["pids"] is None else str(sample["pids"]),
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
        options=(
            Option("no-stream", "print once, also at a terminal"),
            Option("no-trunc", "do not truncate IDs"),
            FORMAT,
            *refused("stats"),
        ),
        details=(
            "Default: all running containers. Refreshed every second at a terminal, otherwise\n"
            "printed once. CPU % is relative to one CPU: 200% means two full CPUs."
        ),
        examples=(
            ("Print the usage of one container once", "ocictl stats --no-stream web"),
            ("Choose the fields", "ocictl stats --format '{{.Name}} {{.CpuPercent}}'"),
        ),
    ),
)
