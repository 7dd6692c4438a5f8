"""`ociruntime restore ID`."""

from __future__ import annotations

from ociruntime.cli.checkpoint_options import checkpoint_options
from ociruntime.cli.container_options import container_options
from ociruntime.runtime.options import make_root
from ociruntime.runtime.restore import restore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.runtime.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Restore the container; the exit status is its program's, or 0 with ``--detach``."""
    detach = arguments.flag("detach")
    options = container_options(arguments, arguments.positional[0], detach=detach)
    make_root(context)
    return restore(context, options, checkpoint_options(arguments))
