"""Pull an image through ocid, and print the progress."""

from __future__ import annotations

from ociruntime.commandline.layer_progress import Layers
from ociruntime.manager.client.connection import Connection, DaemonError, resource


def pulled(connection: Connection, body: dict[str, object], name: str, *, quiet: bool) -> str:
    """Pull an image, print the progress to standard error, and return the image's id.

    ``body`` is the JSON for ``POST /v1/images/pull``, ``name`` is the image's name in the progress.
    Raises DaemonError if the pull fails, HostError if ocid cannot be reached.
    """
    with Layers(name, quiet=quiet) as layers:
        for line in connection.lines("POST", resource("images", "pull"), body):
            if "error" in line:
                raise DaemonError(line["error"]["message"], line["error"]["code"], 200)
            if "id" in line:
                layers.finish()
                return str(line["id"])
            layers(line["progress"], line["done"], line["total"])
    message = f'pull image "{body["image"]}": ocid closed the connection before the pull ended'
    raise DaemonError(message, "failed", 200)
