"""`ociruntime restore ID`."""

from __future__ import annotations

from ociruntime.runtime.cli.checkpoint_options import checkpoint_options
from ociruntime.runtime.cli.container_options import container_options
from ociruntime.runtime.lifecycle.checkpoint.restore import restore
from ociruntime.runtime.lifecycle.options import make_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Restore the container; the exit status is its program's, or 0 with ``--detach``."""
    detach = arguments.flag("detach")
    options = container_options(arguments, arguments.positional[0], detach=detach)
    make_root(context)
    return restore(context, options, checkpoint_options(arguments))
