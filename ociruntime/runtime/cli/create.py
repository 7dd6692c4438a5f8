"""`ociruntime create ID`."""

from __future__ import annotations

from ociruntime.runtime.cli.container_options import container_options, open_timeline
from ociruntime.runtime.lifecycle.create import create
from ociruntime.runtime.lifecycle.options import make_root
from ociruntime.startup.snapshot import make_in_background

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Create the container; silent."""
    open_timeline(context, arguments, "ociruntime create " + arguments.positional[0])
    options = container_options(arguments, arguments.positional[0], detach=True)
    make_root(context)
    create(context, options)
    make_in_background()
    return 0
