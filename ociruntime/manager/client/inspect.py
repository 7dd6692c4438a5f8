"""``ocictl inspect``: print containers, images, networks and volumes as JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.manager.client import docker_inspect
from ociruntime.manager.client.connection import (
    Connection,
    DaemonError,
    container,
    resource,
)
from ociruntime.manager.client.containers import FAILED, print_failure
from ociruntime.manager.client.format_option import formatted
from ociruntime.manager.client.new_container import absolute_image
from ociruntime.manager.client.options import INSPECT_FORMAT
from ociruntime.manager.client.refused_options import refused
from ociruntime.manager.client.template_functions import Shape

Record: TypeAlias = dict[str, Any]


def run_inspect(connection: Connection, arguments: Arguments) -> int:
    """Print containers, images, networks or volumes as JSON; return 1 if one is not found.

    Raises UsageError for an invalid ``--format``.
    """
    images: dict[str, Record | None] = {}

    def described(record: Record) -> Shape:
        """Return a container in docker's form, with its image's settings if the image exists."""
        image_id = (record.get("details") or {}).get("image_id") or ""
        if image_id and image_id not in images:
            try:
                images[image_id] = connection.get(resource("images", image_id, "json"))
            except DaemonError:
                images[image_id] = None
        return docker_inspect.container(record, images.get(image_id))

    getters: dict[str, Callable[[str], Shape]] = {
        "container": lambda ref: described(connection.get(container(ref))),
        "image": lambda ref: docker_inspect.image(
            connection.get(resource("images", absolute_image(ref, os.getcwd()), "json"))
        ),
        "network": lambda ref: docker_inspect.network(connection.get(resource("networks", ref))),
        "volume": lambda ref: docker_inspect.volume(connection.get(resource("volumes", ref))),
    }
    if kind := arguments.text("type"):
        return show_each(arguments, getters[kind])
    return show_each(arguments, lambda ref: _first(ref, getters))


_NOT_FOUND = (400, 404)  # HTTP statuses for an object that does not exist or an invalid name


def _first(ref: str, getters: Mapping[str, Callable[[str], Shape]]) -> Shape:
    """Return the object with the name or id ``ref``, whatever its kind.

    ``getters`` maps each kind, such as "container", to a function ``get(ref)`` for objects of that
    kind.  The kinds are tried in order.  Raises RuntimeFailure if no object has this name or id,
    HostError if the daemon cannot be reached.
    """
    for get in getters.values():
        try:
            return get(ref)
        except DaemonError as error:
            if error.status not in _NOT_FOUND:
                raise
    *first, last = getters
    kinds = f"{', '.join(first)} or {last}"
    raise RuntimeFailure(f'inspect "{ref}": no {kinds} with this name or ID found')


def show_each(arguments: Arguments, get: Callable[[str], Shape]) -> int:
    """Print the object that ``get`` returns for each argument, as JSON or as ``--format`` says.

    If ``get`` fails for an argument, prints the error and continues.  Returns 0, or 1 after such an
    error.  Raises UsageError for an invalid ``--format``, HostError if the daemon cannot be
    reached.
    """
    status = 0
    objects = []
    for ref in arguments.positional:
        try:
            objects.append(get(ref))
        except HostError:
            raise
        except RuntimeFailure as failure:
            print_failure(failure)
            status = FAILED
    import json

    from ociruntime.manager.client.template_functions import json_value

    if (form := arguments.text("format")) and form != "json":
        return write(formatted(objects, form, escapes=False)) or status
    shown = [json_value(one) for one in objects]
    if form:
        return write(json.dumps(shown, separators=(",", ":")) + "\n") or status

    return write(json.dumps(shown, indent=4) + "\n") or status


COMMANDS = (
    Command(
        "inspect NAME...",
        "show details of containers, images, networks, volumes",
        run_inspect,
        options=(
            INSPECT_FORMAT,
            Option(
                "type",
                "type of the object, if names are ambiguous",
                "container|image|network|volume",
                kind="choice",
            ),
            *refused("inspect"),
        ),
        details=(
            "Prints a list in docker's format. Templates can also use the names of the HTTP\n"
            "API, in either spelling: {{.exit_code}} or {{.ExitCode}}."
        ),
        examples=(
            ("Print the status", "ocictl inspect --format '{{.State.Status}}' web"),
            ("Print the environment", "ocictl inspect -f '{{join .Config.Env \" \"}}' web"),
        ),
    ),
)
