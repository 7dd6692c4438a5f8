"""Commands on single images: ``image inspect``, ``image history``, ``image tag``."""

from __future__ import annotations

import json
from typing import Any

from ociruntime.base.errors import ImageError
from ociruntime.base.log import plain
from ociruntime.commandline.formats import tabbed
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import amount
from ociruntime.images.fetch import look_up
from ociruntime.images.model.inspect_details import details
from ociruntime.images.model.reference import parse
from ociruntime.images.store.store import Store
from ociruntime.pods.cli.context import Context

_TITLES = ["CREATED", "CREATED BY", "SIZE", "COMMENT"]
USE_NAME = "use a name such as localhost:5000/team/web:1.2"
_LONGEST_COMMAND = 45  # characters


def history_table(steps: list[dict[str, Any]], *, full: bool) -> str:
    """Format steps, oldest first, as a table with the newest first.

    ``steps`` are the member ``history`` of images/model/inspect_details.py; ``full``: whole commands.
    """
    rows = [_TITLES]
    for step in reversed(steps):
        command = plain(step["created_by"])
        if not full and len(command) > _LONGEST_COMMAND:
            command = command[: _LONGEST_COMMAND - 1] + "…"
        created = plain(step["created"]).partition(".")[0]
        rows.append([created or "-", command or "-", amount(step["size"]), step["comment"]])
    return tabbed(rows)


def run_image_inspect(context: Context, arguments: Arguments) -> int:
    """Print the settings, layers and history of each image, as a JSON list."""
    with Store(context.directory) as store:
        images = [details(store.load(look_up(store, text))) for text in arguments.positional]
    return write(json.dumps(images, indent=2) + "\n")


def run_image_history(context: Context, arguments: Arguments) -> int:
    """Print the steps by which an image was built, newest first."""
    with Store(context.directory) as store:
        image = details(store.load(look_up(store, arguments.positional[0])))
    return write(history_table(image["history"], full=arguments.flag("no-trunc")))


def run_image_tag(context: Context, arguments: Arguments) -> int:
    """Add a name to an image, and remove the name from any other image that has it.

    The signature policy checks the image by the names under which it was imported, not by this one.
    """
    text, name = arguments.positional
    reference = parse(name)
    if reference.kind != "registry" or reference.digest:
        raise ImageError(f'tag image "{text}": "{name}" is not a name with a tag', USE_NAME)
    with Store(context.directory) as store:
        store.set_name(look_up(store, text).id, reference.name)
    return 0


COMMANDS = (
    Command(
        "image inspect IMAGE...",
        "show details of images as JSON",
        run_image_inspect,
        details="Prints settings, layers and history of each image in the store.",
        examples=(
            (
                "Print the environment of an image",
                "ocipod image inspect busybox | jq .[0].config.Env",
            ),
        ),
    ),
    Command(
        "image history IMAGE",
        "show how an image was built",
        run_image_history,
        options=(Option("no-trunc", "do not truncate commands"),),
        details="Prints the newest step first, with the size of its layer as stored.",
    ),
    Command(
        "image tag IMAGE NAME",
        "give an image another name",
        run_image_tag,
        details=(
            "NAME is a registry reference, such as localhost:5000/team/web:1.2. Another image\n"
            "of that name loses it. A signature policy applies to the name that the image was\n"
            "fetched by."
        ),
        examples=(("Name an image by its version", "ocipod image tag web web:1.2"),),
    ),
)
