"""`ociruntime run ID`."""

from __future__ import annotations

from ociruntime.runtime.cli.container_options import container_options, open_timeline
from ociruntime.runtime.lifecycle.options import make_root
from ociruntime.runtime.lifecycle.run import run as run_container
from ociruntime.startup.snapshot import make_in_background

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Run the container; the exit status is its program's, or 0 with ``--detach``."""
    detach = arguments.flag("detach")
    open_timeline(context, arguments, "ociruntime run " + arguments.positional[0])
    options = container_options(arguments, arguments.positional[0], detach=detach)
    make_root(context)
    status = run_container(context, options)
    make_in_background()
    return status
