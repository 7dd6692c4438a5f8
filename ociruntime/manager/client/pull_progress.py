"""Pull an image through ocid, and show the progress."""

from __future__ import annotations

from ociruntime.commandline.layer_progress import Layers
from ociruntime.manager.client.connection import Connection, DaemonError, resource


def pulled(connection: Connection, body: dict[str, object], name: str, *, quiet: bool) -> str:
    """Pull an image, print the progress to standard error, and return the image's id.

    Raises RuntimeFailure.
    """
    with Layers(name, quiet=quiet) as layers:
        for line in connection.lines("POST", resource("images", "pull"), body):
            if "error" in line:
                raise DaemonError(line["error"]["message"], line["error"]["code"], 200)
            if "id" in line:
                layers.finish()
                return str(line["id"])
            layers(line["progress"], line["done"], line["total"])
    message = f'pull image "{body["image"]}": ocid closed the connection before the end'
    raise DaemonError(message, "failed", 200)
