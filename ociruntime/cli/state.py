"""`ociruntime state ID`."""

from __future__ import annotations

from ociruntime.cli.output import write
from ociruntime.runtime.state import state
from ociruntime.spec.json_text import dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.runtime.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Print the state as JSON; nothing else on either stream, callers merge the two."""
    return write(dump(state(context, arguments.positional[0]), 2) + "\n")
