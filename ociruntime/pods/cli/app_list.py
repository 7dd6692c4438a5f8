"""``ocipod app list``."""

from __future__ import annotations

from ociruntime.commandline.output import write
from ociruntime.pods.store.description import app_names, app_record
from ociruntime.pods.store.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Print a line or an object for each app.  Raises RuntimeFailure."""
    with open_pod(context.directory, arguments.positional[0]) as pod:
        apps = [(name, app_record(pod, name)["state"]) for name in app_names(pod)]
    kind = arguments.text("format", "text")
    if kind != "text":
        import json

        found = [{"name": name, "state": state} for name, state in apps]
        return write(json.dumps(found, indent=2 if kind == "json-pretty" else None) + "\n")
    lines = [] if arguments.flag("no-legend") else ["NAME\tSTATE\n"]
    return write("".join([*lines, *(f"{name}\t{state}\n" for name, state in apps)]))
