"""`ociruntime run ID`: create and start a container."""

from __future__ import annotations

from ociruntime.commandline.options import Command
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.cli.container_options import (
    CONTAINER_OPTIONS,
    FOREGROUND_OPTIONS,
    TIMELINE,
    container_options,
    open_timeline,
)
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.run import run as run_container
from ociruntime.runtime.lifecycle.state_root import make_root
from ociruntime.startup.snapshot import make_in_background


def run(context: Context, arguments: Arguments) -> int:
    """Run a container; return the exit status of its program, or 0 with ``--detach``."""
    detach = arguments.flag("detach")
    open_timeline(context, arguments, "ociruntime run " + arguments.positional[0])
    options = container_options(arguments, arguments.positional[0], detach=detach)
    make_root(context)
    status = run_container(context, options)
    make_in_background()
    return status


COMMANDS = (
    Command(
        "run ID",
        "create and start a container, wait for it, delete it",
        run,
        options=(*CONTAINER_OPTIONS, TIMELINE, *FOREGROUND_OPTIONS),
        details=(
            "Exits with the status of the program, or 128 + N if signal N killed it. Signals\n"
            "sent to this command are forwarded to the program."
        ),
        examples=(
            ("Run in the foreground", "ociruntime run --bundle /srv/web web"),
            (
                "Run in the background",
                "ociruntime run --detach -b /srv/web web </dev/null >web.log 2>&1",
            ),
        ),
        exit_status=(
            ("N", "exit status of the program"),
            ("128 + N", "signal N killed the program"),
            ("1", "the container could not be created"),
        ),
    ),
)
