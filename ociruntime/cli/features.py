"""`ociruntime features`."""

from __future__ import annotations

from ociruntime.cli.output import write
from ociruntime.runtime.features import features
from ociruntime.spec.json_text import dump

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.runtime.options import Context


def run(context: Context, arguments: Arguments) -> int:  # noqa: ARG001 - as every command
    """Print the features as JSON; nothing on standard error, some readers merge the two."""
    return write(dump(features(arguments.text("criu")), 2) + "\n")
