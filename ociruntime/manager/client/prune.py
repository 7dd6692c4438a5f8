"""``ocictl image prune`` and ``system prune``: remove what no container uses."""

from __future__ import annotations

from typing import Any

from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.commandline.progress import amount
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.containers import is_confirmed
from ociruntime.manager.client.options import FORCE
from ociruntime.manager.client.refused_options import refused

_UNNAMED = "images without a name"
_UNUSED = "images that no container uses"


def run_image_prune(connection: Connection, arguments: Arguments) -> int:
    """Remove unused images; print their ids and the freed disk space."""
    whole = arguments.flag("all")
    if not is_confirmed(arguments, f"Remove all {_UNUSED if whole else _UNNAMED}?"):
        return 0
    answer = _prune(connection, "images", {"all": whole})
    lines = "".join(f"{image_id}\n" for image_id in answer["removed"])
    return write(f"{lines}Total reclaimed space: {amount(answer['freed'])}\n")


def run_system_prune(connection: Connection, arguments: Arguments) -> int:
    """Remove stopped containers, unused networks, images and perhaps volumes; print what was."""
    whole, volumes = arguments.flag("all"), arguments.flag("volumes")
    kinds = ["stopped containers", "unused networks", _UNUSED if whole else _UNNAMED]
    kinds += ["anonymous volumes that no container uses"] if volumes else []
    if not is_confirmed(arguments, f"Remove all {', all '.join(kinds)}?"):
        return 0
    # Containers first: they use the rest.
    answers = {
        "Containers": _prune(connection, "containers"),
        "Networks": _prune(connection, "networks"),
        "Volumes": _prune(connection, "volumes") if volumes else {"removed": []},
        "Images": _prune(connection, "images", {"all": whole}),
    }
    parts = [
        f"Deleted {title}:\n" + "".join(f"{name}\n" for name in answer["removed"]) + "\n"
        for title, answer in answers.items()
        if answer["removed"]
    ]
    freed = sum(answer.get("freed", 0) + answer.get("space", 0) for answer in answers.values())
    return write(f"{''.join(parts)}Total reclaimed space: {amount(freed)}\n")


def _prune(connection: Connection, kind: str, body: object = None) -> dict[str, Any]:
    answer: dict[str, Any] = connection.post(resource(kind, "prune"), body)
    return answer


COMMANDS = (
    Command(
        "image prune",
        "remove images without a name that nothing uses",
        run_image_prune,
        options=(
            Option("all", "remove images with a name, too", short="a"),
            FORCE,
            *refused("image prune"),
        ),
        details=(
            "An image that a container or a pod uses, running or not, is kept. `ocipod\n"
            "image gc` also removes interrupted downloads."
        ),
        examples=(("Remove every image that no container uses", "ocictl image prune --all"),),
    ),
    Command(
        "system prune",
        "remove stopped containers, and all that nothing uses",
        run_system_prune,
        options=(
            Option("all", "remove images with a name, too", short="a"),
            Option("volumes", "remove anonymous volumes, too"),
            FORCE,
            *refused("system prune"),
        ),
        details=(
            "Removes containers that are not running (those never started, too), networks\n"
            "of `network create`, and images without a name."
        ),
    ),
)
