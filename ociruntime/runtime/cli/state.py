"""`ociruntime state ID`: print a container's state as JSON."""

from __future__ import annotations

from ociruntime.base.json_text import dump
from ociruntime.commandline.options import Command
from ociruntime.commandline.output import write
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.state import state


def run(context: Context, arguments: Arguments) -> int:
    """Print a container's state (runtime-spec, runtime.md) as JSON; return 0.

    Prints no warnings: some callers merge stdout and stderr.
    """
    return write(dump(state(context, arguments.positional[0]), 2) + "\n")


COMMANDS = (
    Command(
        "state ID",
        "print the state of a container as JSON",
        run,
        details=(
            "The status is creating, created, running, paused or stopped. A stopped container\n"
            "has PID 0 and is kept until `delete`."
        ),
        examples=(("Print only the status", "ociruntime state web | jq -r .status"),),
    ),
)
