"""``ocictl rmi``."""

from __future__ import annotations

import os

from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.each_reference import each
from ociruntime.manager.client.option_values import absolute_image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Remove each image and print its reference."""
    force = arguments.flag("force")

    def remove(ref: str) -> None:
        connection.delete(resource("images", absolute_image(ref, os.getcwd()), force=force))

    return each(arguments.positional, remove)
