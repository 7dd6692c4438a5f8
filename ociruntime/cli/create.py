"""`ociruntime create ID`."""

from __future__ import annotations

from ociruntime.cli.container_options import container_options
from ociruntime.runtime.create import create
from ociruntime.runtime.options import make_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.runtime.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Create the container; silent."""
    options = container_options(context, arguments, arguments.positional[0], detach=True)
    make_root(context)
    create(context, options)
    return 0
