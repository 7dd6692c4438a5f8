"""``ocictl pod ls``."""

from __future__ import annotations

from ociruntime.base.log import plain
from ociruntime.commandline.columns import tabbed
from ociruntime.commandline.output import write
from ociruntime.commandline.times import ago
from ociruntime.manager.client.connection import Connection, resource
from ociruntime.manager.client.forms import formatted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments

_TITLES = ["UUID", "STATE", "CREATED", "APPS", "CONTAINER"]


def run(connection: Connection, arguments: Arguments) -> int:
    """Print a line for each pod.  Raises UsageError."""
    pods = connection.get(resource("pods"))
    if form := arguments.text("format"):
        return write(formatted(pods, form))
    if arguments.flag("quiet"):
        return write("".join(f"{pod['id']}\n" for pod in pods))
    rows = [] if arguments.flag("no-legend") else [_TITLES]
    for pod in pods:
        apps = plain(", ".join(pod["apps"])) or "-"
        container = pod["container"] or "-"
        rows.append([pod["id"], pod["state"], ago(pod["created_at"]), apps, container[:12]])
    return write(tabbed(rows))
