"""``ocipod app exec``: run a command in a running app."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.pods.operations.app_exec import Command, become_command, start_command
from ociruntime.pods.store.description import choose_app
from ociruntime.pods.store.phases import open_pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Exec the runtime with the command, or with ``--detach`` start it.  Raises RuntimeFailure."""
    uuid, *argv = arguments.positional
    if not argv:
        raise UsageError("app exec: a command is required")
    env = arguments.list("env")
    for variable in env:
        if not variable.partition("=")[1] or variable.startswith("="):
            raise UsageError(f'--env: "{variable}" is not NAME=VALUE')
    if arguments.flag("tty") and arguments.flag("detach"):
        raise UsageError("--tty cannot be combined with --detach")
    command = Command(
        argv,
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
