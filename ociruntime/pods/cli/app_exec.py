"""``ocipod app exec``: a command in an app."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.pods.operations.app_exec import Command, become_command, start_command
from ociruntime.pods.store.app_states import choose_app
from ociruntime.pods.store.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Becomes the command, or with ``--detach`` starts it.  Raises RuntimeFailure."""
    uuid, *words = arguments.positional
    if not words:
        raise UsageError("app exec needs a command")
    env = arguments.list("env")
    for word in env:
        if not word.partition("=")[1] or word.startswith("="):
            raise UsageError(f'--env: "{word}" is not NAME=VALUE')
    if arguments.flag("tty") and arguments.flag("detach"):
        raise UsageError("--tty and --detach exclude each other", "it would have no terminal")
    command = Command(
        words,
        tty=arguments.flag("tty"),
        env=env,
        user=arguments.text("user"),
        cwd=arguments.text("cwd"),
    )
    pod = open_pod(context.directory, uuid)
    app = choose_app(pod, arguments.text("app"))
    if not arguments.flag("detach"):
        become_command(pod, app, command, arguments.text("log"))
    start_command(pod, app, command)
    return 0
