"""``ocipod app stop``."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.commandline.output import write
from ociruntime.pods.store.control import ask
from ociruntime.pods.store.description import app_record, choose_app
from ociruntime.pods.store.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Stop an app and wait for its exit; do nothing if it has exited.  Raises RuntimeFailure."""
    with open_pod(context.directory, arguments.positional[0]) as pod:
        name = choose_app(pod, arguments.text("app"))
        if app_record(pod, name)["state"] == "exited":
            write(f'app "{name}" is already stopped\n')
            return 0
        ask(pod, {"op": "stop", "app": name, "seconds": seconds_of(arguments)})
    return 0


def seconds_of(arguments: Arguments) -> int:
    """Return the stop timeout given by ``--time``.  Raises UsageError."""
    seconds = arguments.number("time", 10)
    if seconds < 0:
        raise UsageError("--time: must be a number of seconds, 0 or more")
    return seconds
