"""``ocipod app start``."""

from __future__ import annotations

from ociruntime.pods.store.control import ask
from ociruntime.pods.store.description import choose_app
from ociruntime.pods.store.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Start an app; do nothing if it is running.  Raises RuntimeFailure."""
    with open_pod(context.directory, arguments.positional[0]) as pod:
        ask(pod, {"op": "start", "app": choose_app(pod, arguments.text("app"))})
    return 0
