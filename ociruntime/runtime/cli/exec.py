"""`ociruntime exec ID COMMAND [ARGUMENT]...`."""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure
from ociruntime.runtime.cli.container_options import caller_path, descriptor_count
from ociruntime.runtime.lifecycle.exec import ExecOptions, execute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context

# As in runc: 1 could be the program's own status.
FAILED = 255


def run(context: Context, arguments: Arguments) -> int:
    """Run the process; the exit status is its program's, or 0 with ``--detach``."""
    try:
        return execute(context, _options(arguments))
    except RuntimeFailure as failure:
        failure.exit_status = FAILED
        raise


def _options(arguments: Arguments) -> ExecOptions:
    return ExecOptions(
        arguments.positional[0],
        arguments.positional[1:],
        process_file=caller_path(arguments, "process"),
        detach=arguments.flag("detach"),
        pid_file=caller_path(arguments, "pid-file"),
        tty=arguments.flag("tty"),
        console_socket=caller_path(arguments, "console-socket"),
        pidfd_socket=caller_path(arguments, "pidfd-socket"),
        cwd=arguments.text("cwd"),
        env=arguments.list("env"),
        user=arguments.text("user"),
        additional_gids=arguments.list("additional-gids"),
        capabilities=arguments.list("cap"),
        no_new_privs=arguments.flag("no-new-privs"),
        apparmor=arguments.text("apparmor"),
        process_label=arguments.text("process-label"),
        preserve_fds=descriptor_count(arguments),
        cgroups=arguments.list("cgroup"),
        ignore_paused=arguments.flag("ignore-paused"),
    )
