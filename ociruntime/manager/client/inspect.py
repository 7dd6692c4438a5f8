"""``ocictl inspect``: details of containers, images, networks and volumes."""

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
    """Print details of containers, images, networks or volumes; return 1 if one was not found.

    Raises UsageError.
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


_NOT_FOUND = (400, 404)  # HTTP status if the object does not exist, or its name is not valid


def _first(ref: str, getters: Mapping[str, Callable[[str], Shape]]) -> Shape:
    """Call each of ``getters`` in order; return the first object that has the name ``ref``.

    Raises RuntimeFailure if there is none, HostError if the daemon cannot be reached.
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
    """Print the object that ``get`` returns for each argument, as JSON or by ``--format``.

    If ``get`` fails for an argument, prints the error, and returns 1 at the end.  Raises
    UsageError; HostError if the daemon cannot be reached.
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
            "Prints a list in the shape of docker's. Templates also find the names of the\n"
            "HTTP API, in any spelling: {{.exit_code}} or {{.ExitCode}}."
        ),
        examples=(
            ("Print its status", "ocictl inspect --format '{{.State.Status}}' web"),
            ("Print its variables", "ocictl inspect -f '{{join .Config.Env \" \"}}' web"),
        ),
    ),
)
