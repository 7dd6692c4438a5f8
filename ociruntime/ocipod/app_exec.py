"""``ocipod app exec``: a command in an app."""

from __future__ import annotations

from ociruntime.errors import UsageError
from ociruntime.pod.app_exec import become_command
from ociruntime.pod.app_states import choose_app
from ociruntime.pod.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.ocipod.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Becomes the command.  Raises RuntimeFailure."""
    uuid, *command = arguments.positional
    if not command:
        raise UsageError("app exec needs a command")
    options = ["--tty"] if arguments.flag("tty") else []
    for word in arguments.list("env"):
        if not word.partition("=")[1] or word.startswith("="):
            raise UsageError(f'--env: "{word}" is not NAME=VALUE')
        options += ["--env", word]
    for name in ("user", "cwd"):
        if arguments.text(name):
            options += [f"--{name}", arguments.text(name)]
    pod = open_pod(context.directory, uuid)
    app = choose_app(pod, arguments.text("app"))
    become_command(pod, app, command, options)
