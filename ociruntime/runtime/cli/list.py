"""`ociruntime list`: list the containers."""

from __future__ import annotations

from ociruntime.base.json_text import dump
from ociruntime.base.log import plain
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write, write_lines
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.tables_and_times import aligned
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.list import list_containers

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
