"""``ocictl history``: how an image was built."""

from __future__ import annotations

import time
from typing import Any

from ociruntime.base.log import plain
from ociruntime.commandline.formats import ago, aligned
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import amount
from ociruntime.manager.client.connection import Connection
from ociruntime.manager.client.format_option import chosen, formatted
from ociruntime.manager.client.image_files import image_details
from ociruntime.manager.client.options import FORMAT, NO_LEGEND
from ociruntime.manager.client.ps import SHORT_ID, seconds
from ociruntime.manager.client.refused_options import refused
from ociruntime.manager.client.template_functions import Shape

_TITLES = ["IMAGE", "CREATED", "CREATED BY", "SIZE", "COMMENT"]
_FIELD_TITLES = {
    "ID": "IMAGE",
    "CreatedSince": "CREATED",
    "CreatedAt": "CREATED AT",
    "CreatedBy": "CREATED BY",
}
_LONGEST_COMMAND = 45  # characters
_MISSING = "<missing>"  # only the last step has an ID: that of the whole image


def run_history(connection: Connection, arguments: Arguments) -> int:
    """Print the steps of an image's build, newest first.  Raises UsageError."""
    details = image_details(connection, arguments.positional[0])
    full, human = arguments.flag("no-trunc"), arguments.flags.get("human", True)
    rows = steps(details, time.time(), full=full, human=human)
    if form := chosen(arguments):
        shown = details["history"][::-1] if form == "json" else rows
        return write(formatted(shown, form, _FIELD_TITLES))
    if arguments.flag("quiet"):
        return write("".join(f"{row['ID']}\n" for row in rows))
    fields = ("ID", "CreatedSince" if human else "CreatedAt", "CreatedBy", "Size", "Comment")
    cells = [[row[name] for name in fields] for row in rows]
    return write(aligned(cells if arguments.flag("no-legend") else [_TITLES, *cells], gap=3))


def steps(details: dict[str, Any], now: float, *, full: bool, human: bool) -> list[Shape]:
    """Return the steps of an image's build with docker's fields, newest first.

    ``details`` are those of images/model/inspect_details.py; ``full``: whole IDs and commands; ``human``:
    sizes with a unit.
    """
    whole = str(details["id"])
    image_id = whole if full else whole.partition(":")[2][:SHORT_ID]
    rows = []
    for number, step in enumerate(reversed(details["history"])):
        command = plain(step["created_by"])
        if not full and len(command) > _LONGEST_COMMAND:
            command = command[: _LONGEST_COMMAND - 1] + "…"
        members = {
            "ID": _MISSING if number else image_id,
            "CreatedSince": _since(step["created"], now),
            "CreatedAt": plain(step["created"]),
            "CreatedBy": command,
            "Size": amount(step["size"]) if human else str(step["size"]),
            "Comment": plain(step["comment"]),
        }
        rows.append(Shape(members, step))
    return rows


def _since(created: str, now: float) -> str:
    try:
        moment = seconds(created)
    except (ValueError, OverflowError):
        return ""  # the image's own words
    return "" if moment is None else ago(moment, now)


COMMANDS = (
    Command(
        "history IMAGE",
        "show how an image was built",
        run_history,
        options=(
            Option("quiet", "print only IDs", short="q"),
            Option("no-trunc", "do not truncate commands and IDs"),
            Option("human", "print sizes and times for people (default: true)", short="H"),
            NO_LEGEND,
            FORMAT,
            *refused("history"),
        ),
        details=(
            "Prints the newest step first, with the size of its layer as stored. Only the\n"
            "newest step has the ID of an image."
        ),
        examples=(("Print the commands", "ocictl history --format '{{.CreatedBy}}' web"),),
    ),
)
