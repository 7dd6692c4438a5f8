"""`ociruntime create ID`: create a container from a bundle."""

from __future__ import annotations

from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.cli.container_options import (
    CONTAINER_OPTIONS,
    TIMELINE,
    container_options,
    open_timeline,
)
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.create import create
from ociruntime.runtime.lifecycle.state_root import make_root
from ociruntime.startup.snapshot import make_in_background


def run(context: Context, arguments: Arguments) -> int:
    """Create a container; return 0."""
    open_timeline(context, arguments, "ociruntime create " + arguments.positional[0])
    options = container_options(arguments, arguments.positional[0], detach=True)
    make_root(context)
    create(context, options)
    make_in_background()
    return 0


COMMANDS = (
    Command(
        "create ID",
        "create a container without starting its program",
        run,
        options=(*CONTAINER_OPTIONS, TIMELINE, Option("no-subreaper")),
        details=(
            "Returns when the container is set up; `start` runs its program. If anything\n"
            "fails, nothing is left behind. Standard input, output and error become the\n"
            "container's. --timeline writes a chart (.svg) or a trace for Perfetto (.json)."
        ),
        examples=(
            (
                "Create a container that does not use the caller's terminal",
                "ociruntime create --bundle /srv/web web </dev/null >web.log 2>&1",
            ),
        ),
    ),
)
