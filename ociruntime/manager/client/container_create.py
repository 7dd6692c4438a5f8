"""``ocictl container create``."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.commandline.output import write
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.new_container import spec_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def run(connection: Connection, arguments: Arguments) -> int:
    """Create a container and print its id.  Raises UsageError."""
    name, *command = arguments.positional
    image = arguments.text("image")
    if bool(image) == bool(arguments.text("rootfs")):
        raise UsageError("container create: either --rootfs or --image is required")
    arguments.texts["name"] = name
    answer = connection.post(resource("containers"), spec_of(arguments, image, command))
    return write(f"created: {answer['id']}\n")
