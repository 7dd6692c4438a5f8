"""`ociruntime resume ID`."""

from __future__ import annotations

from ociruntime.runtime.pause import resume

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.runtime.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Let the processes go on; silent."""
    resume(context, arguments.positional[0])
    return 0
