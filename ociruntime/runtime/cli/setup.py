"""``ociruntime setup ENGINE``: configure podman, Docker, containerd or CRI-O for this runtime."""

from __future__ import annotations

import os

from ociruntime.base.errors import RuntimeFailure, UsageError
from ociruntime.base.host_programs import own_launcher
from ociruntime.base.process import end_on_signals
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import write, write_lines
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.engines.engine_configs import NAME
from ociruntime.runtime.engines.setup import Request, set_up, undo
from ociruntime.runtime.lifecycle.context import Context

_FILE_MODES = 0o022  # umask: the engines of other users read these files


def run(context: Context, arguments: Arguments) -> int:  # noqa: ARG001 - as every command
    """Write or remove ociruntime's file in the engine's configuration; print what was done.

    Raises RuntimeFailure if the user must add lines to a file that ociruntime did not create.
    """
    (engine,) = arguments.positional
    end_on_signals()  # so that a signal removes the test container's directory and image
    os.umask(_FILE_MODES)
    if arguments.flag("undo"):
        if arguments.flag("default") or arguments.flag("reload"):
            raise UsageError(
                "setup --undo: cannot be combined with other options", "omit --default and --reload"
            )
        return write_lines(undo(engine).lines)
    outcome = set_up(
        Request(engine, own_launcher(NAME), arguments.flag("default"), arguments.flag("reload"))
    )
    status = write_lines(outcome.lines)
    if outcome.missing:
        write(f"add these lines to {outcome.file}:\n\n{outcome.missing}\n")
        raise RuntimeFailure(
            f'set up {engine}: write "{outcome.file}": the file was not created by ociruntime',
            "add the lines printed above to it yourself",
        )
    if outcome.failure:
        raise RuntimeFailure(f"set up {engine}: {outcome.failure}")
    return status


COMMANDS = (
    Command(
        "setup podman|docker|containerd|crio",
        "configure an engine to use this runtime, or undo it",
        run,
        options=(
            Option("default", "make it the engine's default runtime"),
            Option("reload", "make a running dockerd reload its configuration"),
            Option("undo", "remove what this command has written"),
        ),
        details=(
            "Writes one file of its own in the engine's configuration directory, checks that\n"
            "the engine reads it, and runs a container if the engine can do so without an\n"
            "image. A file that somebody else wrote is never changed: if the engine needs\n"
            "one, the lines to add are printed, and the exit status is 1. Without root,\n"
            "podman is configured for the user."
        ),
        examples=(
            (
                "Make the runtime known to podman: `podman --runtime ociruntime run ...`",
                "ociruntime setup podman",
            ),
            ("Make it Docker's default, now", "ociruntime setup docker --default --reload"),
            ("Undo it", "ociruntime setup podman --undo"),
        ),
    ),
)
