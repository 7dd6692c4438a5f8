"""``ocipod app rm``."""

from __future__ import annotations

from ociruntime.pods.cli.app_stop import seconds_of
from ociruntime.pods.operations.sandbox import remove_app
from ociruntime.pods.store.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Stop an app and remove it with its files.  Raises RuntimeFailure."""
    seconds = seconds_of(arguments)
    with open_pod(context.directory, arguments.positional[0]) as pod:
        remove_app(pod, arguments.text("app"), seconds)
    return 0
