"""`ociruntime start ID`."""

from __future__ import annotations

from ociruntime.runtime.start import start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.runtime.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Start the container; silent."""
    start(context, arguments.positional[0], arguments.number("failure-fd", -1))
    return 0
