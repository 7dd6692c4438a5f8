"""`ociruntime run ID`."""

from __future__ import annotations

from ociruntime.cli.container_options import container_options
from ociruntime.runtime import run as runtime
from ociruntime.runtime.options import make_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.runtime.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Run the container; the exit status is its program's, or 0 with ``--detach``."""
    detach = arguments.flag("detach")
    options = container_options(arguments, arguments.positional[0], detach=detach)
    make_root(context)
    return runtime.run(context, options)
