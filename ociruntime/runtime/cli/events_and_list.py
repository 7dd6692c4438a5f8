"""The commands `events` and `list`."""

from __future__ import annotations

from ociruntime.base.json_text import dump
from ociruntime.base.log import plain
from ociruntime.commandline.durations import interval
from ociruntime.commandline.formats import aligned
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write, write_lines
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.events import follow, stats
from ociruntime.runtime.lifecycle.list import list_containers


def run_events(context: Context, arguments: Arguments) -> int:
    """Print each event as a line of JSON until the container exits or the reader closes stdout."""
    container_id = arguments.positional[0]
    seconds = interval(arguments.text("interval", "5s"), "interval")
    if arguments.flag("stats"):
        return write(_line(stats(context, container_id)))
    follow(context, container_id, seconds, lambda event: write(_line(event)) == 0)
    return 0


def _line(event: dict[str, object]) -> str:
    return dump(event) + "\n"


_COLUMNS = ("id", "pid", "status", "bundle", "created", "owner")
_NARROWEST = 12
_GAP = 3


def run_list(context: Context, arguments: Arguments) -> int:
    """Print all containers; ``--quiet`` overrides ``--format``, as in runc.

    Without containers the JSON is ``[]``. runc prints ``null``: programs in Go accept both,
    programs in other languages expect a list.
    """
    containers = list_containers(context)
    if arguments.flag("quiet"):
        return write_lines([container["id"] for container in containers])
    if arguments.text("format") == "json":
        return write(dump(containers) + "\n")
    rows = [[plain(str(container.get(key, ""))) for key in _COLUMNS] for container in containers]
    # Scripts that parse runc's table expect this layout.
    return write(aligned([[key.upper() for key in _COLUMNS], *rows], _GAP, _NARROWEST))


COMMANDS = (
    Command(
        "events ID",
        "stream statistics and OOM events of a container",
        run_events,
        options=(
            Option("stats", "print the statistics once and exit"),
            Option("interval", "interval of statistics, as 1m30s (default: 5s)", "TIME"),
        ),
        details=(
            "Prints a line of JSON per interval (type stats) and one when a process is\n"
            "OOM-killed (type oom), until the container stops."
        ),
        examples=(
            ("Print the statistics once, for a script", "ociruntime events --stats web | jq .data"),
        ),
    ),
    Command(
        "list",
        "list containers",
        run_list,
        options=(
            Option(
                "format", "output format (default: table)", "table|json", kind="choice", short="f"
            ),
            Option("quiet", "print only IDs", short="q"),
        ),
        examples=(
            ("Delete all stopped containers", "ociruntime list -q | xargs -n 1 ociruntime delete"),
        ),
    ),
)
