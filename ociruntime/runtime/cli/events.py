"""`ociruntime events ID`: print OOM kills and statistics of a container."""

from __future__ import annotations

from ociruntime.base.json_text import dump
from ociruntime.commandline.durations import interval
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.events import follow, stats


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
)
