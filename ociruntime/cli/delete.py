"""`ociruntime delete ID`."""

from __future__ import annotations

from ociruntime.runtime.delete import delete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.runtime.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Delete the container; silent."""
    delete(context, arguments.positional[0], arguments.flag("force"))
    return 0
