"""`ociruntime events ID`."""

from __future__ import annotations

from ociruntime.base.json_text import dump
from ociruntime.commandline.durations import seconds
from ociruntime.commandline.output import write
from ociruntime.runtime.lifecycle.events import follow, stats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Print one JSON object a line, until the container exits or the reader closes the pipe."""
    container_id = arguments.positional[0]
    interval = seconds(arguments.text("interval", "5s"), "interval")
    if arguments.flag("stats"):
        return write(_line(stats(context, container_id)))
    follow(context, container_id, interval, lambda event: write(_line(event)) == 0)
    return 0


def _line(event: dict[str, Any]) -> str:
    return dump(event) + "\n"
