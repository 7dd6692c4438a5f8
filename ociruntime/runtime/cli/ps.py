"""`ociruntime ps ID [ARGUMENT]...`."""

from __future__ import annotations

from ociruntime.base.json_text import dump
from ociruntime.commandline.output import write, write_lines
from ociruntime.runtime.lifecycle.ps import process_ids, process_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context


def run(context: Context, arguments: Arguments) -> int:
    """Print the processes; the JSON is one array of pids."""
    container_id, *words = arguments.positional
    if arguments.text("format") == "json":
        return write(dump(process_ids(context, container_id)) + "\n")
    # Escape names and arguments, which the processes choose: ps does not escape U+202E, for
    # instance.
    return write_lines(process_table(context, container_id, words))
