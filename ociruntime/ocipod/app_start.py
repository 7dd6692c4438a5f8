"""``ocipod app start``."""

from __future__ import annotations

from ociruntime.pod.app_states import choose_app
from ociruntime.pod.control import ask
from ociruntime.pod.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.ocipod.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Returns when it runs, also if it did before.  Raises RuntimeFailure."""
    with open_pod(context.directory, arguments.positional[0]) as pod:
        ask(pod, {"op": "start", "app": choose_app(pod, arguments.text("app"))})
    return 0
