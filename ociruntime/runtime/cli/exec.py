"""`ociruntime exec ID [COMMAND [ARGUMENT]...]`: run a process in a container."""

from __future__ import annotations

from ociruntime.base.errors import RuntimeFailure
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.cli.container_options import caller_path, descriptor_count
from ociruntime.runtime.lifecycle.context import Context, ExecOptions
from ociruntime.runtime.lifecycle.exec import execute

# runc's status for its own failures: 1 might be the exit status of the program in the container.
FAILED = 255


def run(context: Context, arguments: Arguments) -> int:
    """Run a process in a container; return its exit status, or 0 with ``--detach``."""
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


COMMANDS = (
    Command(
        "exec ID [COMMAND [ARGUMENT]...]",
        "run another process in a container",
        run,
        options=(
            Option(
                "process",
                "run the process in FILE instead of COMMAND",
                "FILE",
                short="p",
                details="FILE holds a process object as in config.json.",
            ),
            Option("detach", "run in the background", short="d"),
            Option("pid-file", "file to write the PID of the process to", "FILE"),
            Option("tty", "allocate a pseudo-terminal", short="t"),
            Option("console-socket", "Unix socket to send the pty master to", "SOCKET"),
            Option("pidfd-socket", "Unix socket to send a pidfd of the process to", "SOCKET"),
            Option("cwd", "working directory in the container", "DIR", completed=False),
            Option("env", "set an environment variable", "NAME=VALUE", kind="list", short="e"),
            Option(
                "user",
                "numeric user and group",
                "UID[:GID]",
                short="u",
                details="Names are not resolved: the container's /etc/passwd is not trusted.",
            ),
            Option("additional-gids", "add a supplementary group", "GID", kind="list", short="g"),
            Option("cap", "add a capability", "CAP", kind="list", short="c"),
            Option("no-new-privs", "set no_new_privs (setuid programs gain nothing)"),
            Option("apparmor", "AppArmor profile", "PROFILE"),
            Option("process-label", "SELinux label", "LABEL"),
            Option(
                "preserve-fds",
                "pass N additional file descriptors (3 to N + 2)",
                "N",
                kind="number",
            ),
            Option(
                "cgroup",
                "run in a sub-cgroup of the container",
                "[CTRL:]PATH",
                kind="list",
                details="With cgroup v1, repeat the option to give a path per controller.",
            ),
            Option("ignore-paused", "allow a paused container; wait until it resumes"),
        ),
        options_end=1,
        details=(
            "Defaults are the settings of the container's own process. Options precede ID.\n"
            "Exits with the status of the program, 128 + N if signal N killed it, or 255 if\n"
            "it could not be run. Signals sent to this command are forwarded to the program."
        ),
        examples=(
            ("Open a shell", "ociruntime exec --tty web sh"),
            ("Run as another user", "ociruntime exec --user 1000:1000 web id"),
            ("Pass options to the program", "ociruntime exec web ls -l /"),
        ),
        exit_status=(
            ("N", "exit status of the program"),
            ("128 + N", "signal N killed the program"),
            ("255", "the program could not be run"),
        ),
    ),
)
