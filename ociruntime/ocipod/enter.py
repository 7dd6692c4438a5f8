"""``ocipod enter``: a shell or a command in an app."""

from __future__ import annotations

import posix

from ociruntime.pod.app_exec import Command, become_command
from ociruntime.pod.app_states import choose_app
from ociruntime.pod.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.ocipod.context import Context

SHELL = "/bin/sh"


def run(context: Context, arguments: Arguments) -> int:
    """Becomes the command.  Raises RuntimeFailure."""
    uuid, *command = arguments.positional
    pod = open_pod(context.directory, uuid)
    app = choose_app(pod, arguments.text("app"))
    tty = posix.isatty(0) and posix.isatty(1)
    become_command(pod, app, Command(command or [SHELL], tty=tty))
