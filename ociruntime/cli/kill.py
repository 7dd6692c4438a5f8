"""`ociruntime kill ID [SIGNAL]`."""

from __future__ import annotations

from ociruntime.cli.signals import signal_number
from ociruntime.runtime.kill import kill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.runtime.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Send the signal; silent."""
    container_id, signal = (*arguments.positional, "SIGTERM")[:2]
    kill(context, container_id, signal_number(signal), arguments.flag("all"))
    return 0
