"""``ocictl pull``."""

from __future__ import annotations

import os

from ociruntime.commandline.output import write
from ociruntime.commandline.progress import Bar
from ociruntime.manager.client.connection import Connection, DaemonError, resource
from ociruntime.manager.client.option_values import absolute_image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Pull each image and print its id, in the order of the arguments."""
    policy = arguments.text("pull", "always")
    status = 0
    for text in arguments.positional:
        body: dict[str, object] = {
            "image": absolute_image(text, os.getcwd()),
            "pull_policy": policy,
            "insecure": arguments.list("insecure"),
        }
        status = write(f"{_pulled(connection, body)}\n")
    return status


def _pulled(connection: Connection, body: dict[str, object]) -> str:
    """Pull an image and return its id, with a progress bar on a terminal.

    Raises RuntimeFailure.
    """
    with Bar() as bar:
        for line in connection.lines("POST", resource("images", "pull"), body):
            if "error" in line:
                raise DaemonError(line["error"]["message"], line["error"]["code"], 200)
            if "id" in line:
                return str(line["id"])
            bar(line["progress"], line["done"], line["total"])
    message = f'pull image "{body["image"]}": ocid ended its answer without a result'
    raise DaemonError(message, "failed", 200)
