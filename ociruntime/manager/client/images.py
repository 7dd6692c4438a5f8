"""``ocictl images``."""

from __future__ import annotations

import time

from ociruntime.base.log import plain
from ociruntime.commandline.columns import tabbed
from ociruntime.commandline.output import write
from ociruntime.commandline.progress import amount
from ociruntime.commandline.times import ago
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.forms import formatted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments

_TITLES = ["NAME", "IMAGE ID", "CREATED", "SIZE"]
_SHORT_ID = 12  # digits


def run(connection: Connection, arguments: Arguments) -> int:
    """Print a line for each name of each image.  Raises UsageError."""
    images = connection.get(resource("images"))
    form = arguments.text("format")
    if form == "json":
        return write(formatted(images, form))
    full = arguments.flag("no-trunc")
    for image in images:
        if not full:
            image["id"] = image["id"].partition(":")[2][:_SHORT_ID]
        image["created"] = ago(image["import_time"], time.time())
    if form:
        return write(formatted(images, form))
    if arguments.flag("quiet"):
        ids = dict.fromkeys(image["id"] for image in images)
        return write("".join(f"{image_id}\n" for image_id in ids))
    rows = [] if arguments.flag("no-legend") else [_TITLES]
    for one in images:
        name = plain(one["name"]) or "<none>"
        rows.append([name, one["id"], one["created"], amount(one["size"])])
    return write(tabbed(rows))
