"""`ociruntime checkpoint ID`."""

from __future__ import annotations

from ociruntime.cli.checkpoint_options import checkpoint_options
from ociruntime.runtime.checkpoint import checkpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.runtime.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Write the checkpoint; 0."""
    checkpoint(context, arguments.positional[0], checkpoint_options(arguments))
    return 0
