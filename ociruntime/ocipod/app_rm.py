"""``ocipod app rm``."""

from __future__ import annotations

from ociruntime.ocipod.app_stop import seconds_of
from ociruntime.pod.app_removal import remove_app
from ociruntime.pod.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.ocipod.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Returns when nothing of it is left.  Raises RuntimeFailure."""
    seconds = seconds_of(arguments)
    with open_pod(context.directory, arguments.positional[0]) as pod:
        remove_app(pod, arguments.text("app"), seconds)
    return 0
