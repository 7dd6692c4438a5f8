"""`ociruntime resume ID`."""

from __future__ import annotations

from ociruntime.runtime.lifecycle.pause import resume

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Let the processes go on; silent."""
    resume(context, arguments.positional[0])
    return 0
