"""The commands ``volume create``, ``ls``, ``inspect``, ``rm`` and ``prune``."""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import UsageError
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import amount
from ociruntime.commandline.tables_and_times import tabbed
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.containers import is_confirmed, remove_each
from ociruntime.manager.client.docker_inspect import volume
from ociruntime.manager.client.filter_option import as_lists, as_query
from ociruntime.manager.client.format_option import chosen, formatted
from ociruntime.manager.client.inspect import show_each
from ociruntime.manager.client.new_container import labels_of
from ociruntime.manager.client.options import FILTER, FORCE, FORMAT, INSPECT_FORMAT, NO_LEGEND
from ociruntime.manager.client.refused_options import refused
from ociruntime.manager.client.template_functions import Pairs, Shape

_TITLES = ["VOLUME NAME", "TYPE", "CONTAINERS"]
_DRIVER = "local"
_FILTERS = ("name", "dangling", "label")
_PRUNE_FILTER = Option("filter", "only volumes with label=KEY[=VALUE]", "FILTER", kind="list")
_QUESTION = "Remove all {kind}volumes that no container uses, with their files?"


def run_create(connection: Connection, arguments: Arguments) -> int:
    """Create a volume, unless it exists, and print its name.

    Raises UsageError for an invalid option.
    """
    if (driver := arguments.text("driver", _DRIVER)) != _DRIVER:
        raise UsageError(f'--driver: unknown driver "{driver}"', "supported: local")
    names = arguments.positional
    body: dict[str, Any] = {"name": names[0]} if names else {}
    if labels := labels_of(arguments.list("label")):
        body["labels"] = labels
    return write(f"{connection.post(resource('volumes'), body)['name']}\n")


def run_ls(connection: Connection, arguments: Arguments) -> int:
    """Print a table of the volumes.

    Raises UsageError for an invalid option.
    """
    query = as_query(arguments.list("filter"), _FILTERS)
    volumes = connection.get(resource("volumes", filters=query))
    if form := chosen(arguments):
        shown = volumes if form == "json" else [_listed(one) for one in volumes]
        return write(formatted(shown, form, {"Name": "VOLUME NAME"}))
    if arguments.flag("quiet"):
        return write("".join(f"{one['name']}\n" for one in volumes))
    rows = [] if arguments.flag("no-legend") else [_TITLES]
    for one in volumes:
        kind = "anonymous" if one["anonymous"] else "named"
        rows.append([one["name"], kind, ", ".join(one["containers"]) or "-"])
    return write(tabbed(rows))


def _listed(record: dict[str, Any]) -> Shape:
    """Return a volume as data for templates of ``volume ls --format``.

    Its labels print as ``a=1,b=2``.
    """
    shape = volume(record)
    shape["Labels"] = Pairs(record["labels"])
    return shape


def run_inspect(connection: Connection, arguments: Arguments) -> int:
    """Print volumes as JSON; return 1 if a volume is not found.

    Raises UsageError for an invalid option.
    """
    return show_each(arguments, lambda name: volume(connection.get(resource("volumes", name))))


def run_rm(connection: Connection, arguments: Arguments) -> int:
    """Remove volumes and print their names; with ``--force``, ignore missing volumes."""
    return remove_each(connection, "volumes", arguments)


def run_prune(connection: Connection, arguments: Arguments) -> int:
    """Remove unused volumes; print their names and the freed disk space.

    Raises UsageError for an invalid option.
    """
    whole = arguments.flag("all")
    filters = as_lists(arguments.list("filter"), ("label",))
    if not is_confirmed(arguments, _QUESTION.format(kind="" if whole else "anonymous ")):
        return 0
    answer = connection.post(resource("volumes", "prune"), {"all": whole, "filters": filters})
    names = "".join(f"{name}\n" for name in answer["removed"])
    return write(f"{names}Total reclaimed space: {amount(answer['space'])}\n")


COMMANDS = (
    Command(
        "volume create [NAME]",
        "create a volume",
        run_create,
        options=(
            Option("label", "set metadata", "KEY[=VALUE]", kind="list"),
            Option("driver", value=_DRIVER, short="d", completed=False),
            *refused("volume create"),
        ),
        details=(
            "Prints the name. If the volume exists already, it keeps its labels. Without\n"
            "NAME the volume is anonymous: its name is generated, and `volume prune`\n"
            "removes it."
        ),
    ),
    Command(
        "volume ls",
        "list volumes",
        run_ls,
        options=(
            Option("quiet", "print only names", short="q"),
            NO_LEGEND,
            FILTER,
            FORMAT,
            *refused("volume ls"),
        ),
        details=(
            "Filters: name, label (KEY or KEY=VALUE), dangling (true: no container uses it).\n"
            "The volumes of `-v /DIR` and of an image's VOLUME are anonymous."
        ),
        examples=(("List unused volumes", "ocictl volume ls --filter dangling=true"),),
    ),
    Command(
        "volume inspect NAME...",
        "show details of volumes as JSON",
        run_inspect,
        options=(INSPECT_FORMAT,),
        examples=(
            ("Print a volume's path", "ocictl volume inspect --format '{{.Mountpoint}}' data"),
        ),
    ),
    Command(
        "volume rm NAME...",
        "remove volumes and their files",
        run_rm,
        options=(Option("force", "ignore volumes that do not exist", short="f"),),
        details="Refuses to remove a volume that a container uses, even if it is stopped.",
    ),
    Command(
        "volume prune",
        "remove anonymous volumes that no container uses",
        run_prune,
        options=(
            FORCE,
            Option("all", "also remove named volumes", short="a"),
            _PRUNE_FILTER,
        ),
        examples=(
            ("Remove volumes by label", "ocictl volume prune --all --filter label=tier=test"),
        ),
    ),
)
