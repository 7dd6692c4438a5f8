"""`ociruntime start ID`: start a created container."""

from __future__ import annotations

from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.start import start


def run(context: Context, arguments: Arguments) -> int:
    """Start the program of a created container; return 0."""
    start(context, arguments.positional[0], arguments.number("failure-fd", -1))
    return 0


COMMANDS = (
    Command(
        "start ID",
        "start a created container",
        run,
        options=(Option("failure-fd", value="FD", kind="number"),),
        examples=(("Start a created container", "ociruntime start web"),),
    ),
)
