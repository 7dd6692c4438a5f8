"""The commands ``ocictl container create``, ``start``, ``stop`` ...: strict variants for scripts.

Tables have fixed columns.  A container in the wrong state is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ociruntime.base.errors import UsageError
from ociruntime.base.log import plain
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.tables_and_times import aligned
from ociruntime.manager.client.connection import Connection, container, resource
from ociruntime.manager.client.containers import stop_timeout
from ociruntime.manager.client.format_option import chosen, formatted
from ociruntime.manager.client.new_container import (
    SPEC_OPTIONS,
    post_spec,
    spec_of,
)
from ociruntime.manager.client.options import FORMAT, START_STATUS, TIME
from ociruntime.manager.client.refused_options import refused

Record: TypeAlias = dict[str, Any]

TITLES = (
    *("ID", "NAME", "STATUS", "EXIT_CODE", "CREATED_AT", "STARTED_AT", "FINISHED_AT"),
    *("COMMAND", "ARGS"),
)
_NO_EXIT_CODE = -1
_NOT_CREATED = "Not created yet."
_NOT_STARTED = "Not started yet."
_NOT_FINISHED = "n/a"


def fixed_table(records: Sequence[Record]) -> str:
    """Format containers (JSON of ocid) as the fixed table of the ``container`` commands."""
    return aligned([TITLES, *(cells(record) for record in records)])


def cells(record: Record) -> tuple[str, ...]:
    """Return a container's row in the fixed table: the cells in the order of ``TITLES``."""
    program, *args = record["command"] or [""]
    exit_code = record["exit_code"]
    return (
        record["id"],
        record["name"],
        record["status"].capitalize(),
        str(_NO_EXIT_CODE if exit_code is None else exit_code),
        nanoseconds(record["created_at"]) or _NOT_CREATED,
        nanoseconds(record["started_at"]) or _NOT_STARTED,
        nanoseconds(record["finished_at"]) or _NOT_FINISHED,
        plain(program),
        plain(", ".join(args)),
    )


def nanoseconds(time: str | None) -> str:
    """Return an RFC 3339 time with nanoseconds: ``2026-11-22T10:00:00.120000000Z``; "" for None."""
    if not time:
        return ""
    seconds, _, fraction = time.removesuffix("Z").partition(".")
    return f"{seconds}.{fraction:0<9.9}Z"


def run_container_create(connection: Connection, arguments: Arguments) -> int:
    """Create a container and print its id.

    Raises UsageError for an invalid option.
    """
    name, *command = arguments.positional
    if command[1:2] == ["--"]:
        del command[1]  # drop the `--` after the program, as in `NAME --rootfs=DIR sh -- -c SCRIPT`
    image = arguments.text("image")
    if bool(image) == bool(arguments.text("rootfs")):
        raise UsageError("container create: exactly one of --rootfs and --image is required")
    arguments.texts["name"] = name
    answer = post_spec(connection, spec_of(arguments, image, command), arguments)
    return write(f"created: {answer['id']}\n")


def run_container_start(connection: Connection, arguments: Arguments) -> int:
    """Start a container and print its id."""
    answer = connection.post(container(arguments.positional[0], "start", strict=True))
    return write(f"started: {answer['id']}\n")


def run_container_stop(connection: Connection, arguments: Arguments) -> int:
    """Stop a container and print its id."""
    path = container(arguments.positional[0], "stop", strict=True)
    answer = connection.post(path, stop_timeout(arguments))
    return write(f"stopped: {answer['id']}\n")


def run_container_get(connection: Connection, arguments: Arguments) -> int:
    """Print a container as a table with one row.

    Raises UsageError for an invalid ``--format``.
    """
    records = [connection.get(container(arguments.positional[0]))]
    form = chosen(arguments)
    return write(formatted(records, form) if form else fixed_table(records))


def run_container_list(connection: Connection, arguments: Arguments) -> int:
    """Print all containers as a table, oldest first.

    Raises UsageError for an invalid ``--format``.
    """
    records = connection.get(resource("containers", all=True))[::-1]
    form = chosen(arguments)
    return write(formatted(records, form) if form else fixed_table(records))


def run_container_delete(connection: Connection, arguments: Arguments) -> int:
    """Remove a container and print its id; with ``--force``, kill it first if it is running."""
    ref = arguments.positional[0]
    container_id = connection.get(container(ref))["id"]
    connection.delete(container(container_id, force=arguments.flag("force")))
    return write(f"deleted: {container_id}\n")


COMMANDS = (
    Command(
        "container create NAME [OPTION]... COMMAND [ARG]...",
        "create a container from a directory or an image",
        run_container_create,
        options=(
            Option("image", "image to use, unless --rootfs is given", "IMAGE"),
            *SPEC_OPTIONS[1:],
            *refused("create"),
        ),
        options_end=2,
        examples=(
            (
                "Create a container from a directory",
                "ocictl container create web --rootfs=/srv/rootfs /bin/httpd -f",
            ),
        ),
    ),
    Command(
        "container start CONTAINER",
        "start a created or stopped container",
        run_container_start,
        exit_status=START_STATUS,
    ),
    Command(
        "container stop CONTAINER", "stop a running container", run_container_stop, options=(TIME,)
    ),
    Command("container get CONTAINER", "show a container", run_container_get, options=(FORMAT,)),
    Command(
        "container list",
        "list all containers",
        run_container_list,
        options=(FORMAT,),
        examples=(("List all containers", "ocictl container list"),),
    ),
    Command(
        "container delete CONTAINER",
        "remove a stopped container",
        run_container_delete,
        options=(Option("force", "kill a running container first", short="f"),),
    ),
)
