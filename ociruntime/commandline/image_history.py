"""The table printed by ``ocipod image history`` and ``ocictl history``."""

from __future__ import annotations

from typing import Any

from ociruntime.base.log import plain
from ociruntime.commandline.formats import tabbed
from ociruntime.commandline.progress import amount

_TITLES = ["CREATED", "CREATED BY", "SIZE", "COMMENT"]
_LONGEST_COMMAND = 45  # characters


def history_table(steps: list[dict[str, Any]], *, full: bool) -> str:
    """Format the build steps of an image as a table, newest first.

    ``steps`` is the member ``history`` of images/model/details.py, oldest first; with ``full``,
    commands are not truncated.
    """
    rows = [_TITLES]
    for step in reversed(steps):
        command = plain(step["created_by"])
        if not full and len(command) > _LONGEST_COMMAND:
            command = command[: _LONGEST_COMMAND - 1] + "…"
        created = plain(step["created"]).partition(".")[0]
        rows.append([created or "-", command or "-", amount(step["size"]), step["comment"]])
    return tabbed(rows)
