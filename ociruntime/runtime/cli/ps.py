"""`ociruntime ps ID [ARGUMENT]...`: list the processes of a container."""

from __future__ import annotations

from ociruntime.base.json_text import dump
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write, write_lines
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.ps import process_ids, process_table


def run_ps(context: Context, arguments: Arguments) -> int:
    """Print a container's processes as ps(1) does, or their PIDs as a JSON array."""
    container_id, *ps_arguments = arguments.positional
    if arguments.text("format") == "json":
        return write(dump(process_ids(context, container_id)) + "\n")
    # A process chooses its name and arguments: write_lines escapes control characters that ps
    # does not escape, such as U+202E.
    return write_lines(process_table(context, container_id, ps_arguments))


COMMANDS = (
    Command(
        "ps ID [ARGUMENT]...",
        "list the processes of a container",
        run_ps,
        options=(
            Option(
                "format", "output format (default: table)", "table|json", kind="choice", short="f"
            ),
        ),
        options_end=1,
        details=(
            "The table is the output of the host's ps(1) with ARGUMENT... (default: -ef); it\n"
            "must have a PID column. The JSON is an array of PIDs on the host."
        ),
        examples=(
            ("List the processes as ps(1) does", "ociruntime ps web"),
            ("List their memory usage", "ociruntime ps web -eo pid,rss,args"),
        ),
    ),
)
