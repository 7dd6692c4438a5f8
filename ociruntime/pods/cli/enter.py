"""``ocipod enter``: run a shell or a command in an app."""

from __future__ import annotations

import posix

from ociruntime.pods.operations.app_exec import Command, become_command
from ociruntime.pods.store.description import choose_app
from ociruntime.pods.store.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context

SHELL = "/bin/sh"


def run(context: Context, arguments: Arguments) -> int:
    """Exec the runtime with the command.  Raises RuntimeFailure."""
    uuid, *command = arguments.positional
    pod = open_pod(context.directory, uuid)
    app = choose_app(pod, arguments.text("app"))
    tty = posix.isatty(0) and posix.isatty(1)
    become_command(pod, app, Command(command or [SHELL], tty=tty))
