"""`ociruntime checkpoint ID`."""

from __future__ import annotations

from ociruntime.runtime.cli.checkpoint_options import checkpoint_options
from ociruntime.runtime.lifecycle.checkpoint.checkpoint import checkpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Write the checkpoint; 0."""
    checkpoint(context, arguments.positional[0], checkpoint_options(arguments))
    return 0
