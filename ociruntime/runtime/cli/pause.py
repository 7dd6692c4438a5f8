"""`ociruntime pause ID`."""

from __future__ import annotations

from ociruntime.runtime.lifecycle.pause import pause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Stop the processes; silent."""
    pause(context, arguments.positional[0])
    return 0
