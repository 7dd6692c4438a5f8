"""``ocictl rmi``."""

from __future__ import annotations

import os

from ociruntime.ocictl.connection import Connection, resource
from ociruntime.ocictl.several import each
from ociruntime.ocictl.spec_words import absolute_image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Prints what was removed."""
    force = arguments.flag("force")

    def remove(ref: str) -> None:
        connection.delete(resource("images", absolute_image(ref, os.getcwd()), force=force))

    return each(arguments.positional, remove)
