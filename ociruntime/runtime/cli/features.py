"""`ociruntime features`."""

from __future__ import annotations

from ociruntime.base.json_text import dump
from ociruntime.commandline.output import write
from ociruntime.runtime.lifecycle.features import features

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context


def run(context: Context, arguments: Arguments) -> int:  # noqa: ARG001 - as every command
    """Print the features as JSON; nothing on standard error, some readers merge the two."""
    return write(dump(features(arguments.text("criu")), 2) + "\n")
