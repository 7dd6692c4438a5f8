"""``ocipod attach``."""

from __future__ import annotations

from ociruntime.base.terminal import DETACH_KEYS, parse_keys
from ociruntime.commandline.output import write
from ociruntime.pods.operations.attach import attach, parse_mode
from ociruntime.pods.store.control import ask
from ociruntime.pods.store.description import choose_app
from ociruntime.pods.store.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Attach to an app; return its exit code, or 0 on detach.  Raises RuntimeFailure."""
    mode = arguments.text("mode")
    streams = [] if mode == "list" else parse_mode(mode)
    keys = parse_keys(arguments.text("detach-keys", DETACH_KEYS))
    with open_pod(context.directory, arguments.positional[0]) as pod:
        app = choose_app(pod, arguments.text("app"))
        if mode == "list":
            found = ask(pod, {"op": "endpoints", "app": app})["endpoints"]
            return write("".join(f"{name}\n" for name in found))
        return attach(pod, app, streams, keys, wait=arguments.flag("wait"))
