"""Options common to `create`, `run`, `restore`, `plan` and `check`."""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError, UsageError
from ociruntime.commandline.options import Option
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.lifecycle.context import Context, CreateOptions

CONTAINER_OPTIONS = (
    Option("bundle", "path of the bundle (default: current directory)", "DIR", short="b"),
    Option("config", "config file in the bundle (default: config.json)", "FILE", short="f"),
    Option(
        "console-socket",
        "Unix socket to send the pty master to",
        "SOCKET",
        details="Required if process.terminal is true. The master is sent with SCM_RIGHTS.",
    ),
    Option("pidfd-socket", "Unix socket to send a pidfd of the init to", "SOCKET"),
    Option(
        "pid-file",
        "file to write the PID of the init to",
        "FILE",
        details="The file is written before the command returns.",
    ),
    Option(
        "preserve-fds",
        "pass N additional file descriptors (3 to N + 2)",
        "N",
        kind="number",
        details="All other descriptors above 2 are closed.",
    ),
    Option(
        "no-pivot",
        "do not use pivot_root (needed on an initramfs)",
        details=(
            "For a root filesystem that pivot_root(2) cannot leave. It makes the container "
            "less safe."
        ),
    ),
    Option("no-new-keyring", "do not create a new session keyring"),
)
TIMELINE = Option("timeline", "write a timeline of the command (.svg or .json)", "FILE")
# Options of the commands that can run a container in the foreground.
FOREGROUND_OPTIONS = (
    Option(
        "detach",
        "run in the background",
        short="d",
        details=(
            "The container writes to this command's output: redirect that to a file. "
            "The container is kept until it is deleted."
        ),
    ),
    Option("keep", "keep the container after it has stopped"),
    Option(
        "no-subreaper",
        "do not become the subreaper of its orphans",
        details="Orphans are reparented to the nearest ancestor that is a subreaper.",
    ),
)


def container_options(arguments: Arguments, container_id: str, *, detach: bool) -> CreateOptions:
    """Return the options of a command that creates a container, with absolute paths.

    Paths are resolved against the working directory, except the path of ``--config``, which is
    resolved against the bundle, as in crun.  Raises UsageError for an invalid value, and HostError
    if the working directory was deleted.
    """
    bundle = bundle_path(arguments)
    return CreateOptions(
        container_id,
        bundle,
        _below(bundle, arguments.text("config")),
        caller_path(arguments, "console-socket"),
        caller_path(arguments, "pid-file"),
        arguments.flag("no-pivot"),
        arguments.flag("no-new-keyring"),
        descriptor_count(arguments),
        detach,
        arguments.flag("keep"),
        arguments.flag("no-subreaper"),
        caller_path(arguments, "pidfd-socket"),
    )


def open_timeline(context: Context, arguments: Arguments, command: str) -> None:
    """Open the file of ``--timeline`` and start to record; do nothing without the option.

    ``command`` becomes the timeline's title.  Raises UsageError unless the file's name ends with
    .svg or .json, HostError if the file cannot be opened.
    """
    path = caller_path(arguments, "timeline")
    if not path:
        return
    if not path.endswith((".svg", ".json")):
        raise UsageError(
            f'--timeline "{path}": unknown format', "use a file name that ends with .svg or .json"
        )
    from time import process_time_ns, time_ns

    now = time_ns()
    phases = [("start the interpreter", now - process_time_ns()), ("load the timeline", now)]
    from ociruntime.runtime.lifecycle.timeline import Timeline

    phases.append(("load the command", time_ns()))
    context.timeline = Timeline(path, command, phases)


def take_bundle_argument(arguments: Arguments) -> None:
    """Store the argument BUNDLE of `plan` and `check` as the option ``--bundle``.

    Raises UsageError if both are given.
    """
    if arguments.positional:
        if arguments.text("bundle") not in ("", arguments.positional[0]):
            raise UsageError(
                f'BUNDLE "{arguments.positional[0]}": conflicts with --bundle',
                "pass BUNDLE or --bundle, not both",
            )
        arguments.texts["bundle"] = arguments.positional[0]


def bundle_path(arguments: Arguments) -> str:
    """Return the absolute path of ``--bundle``, by default the working directory.

    Raises HostError if the working directory has been deleted.
    """
    return caller_path(arguments, "bundle") or _working_directory()


def descriptor_count(arguments: Arguments) -> int:
    """Return the value of ``--preserve-fds``.  Raises UsageError if it is negative."""
    count = arguments.number("preserve-fds")
    if count < 0:
        raise UsageError(f"--preserve-fds {count}: must not be negative")
    return count


def caller_path(arguments: Arguments, name: str) -> str:
    """Return the value of the option ``name`` as an absolute path; "" if it is not given.

    Raises HostError if the working directory has been deleted.
    """
    path = arguments.text(name)
    return absolute(path) if path else ""


def absolute(path: str) -> str:
    """Return ``path`` as an absolute path, resolved against the caller's working directory.

    Raises HostError if the working directory has been deleted.
    """
    return path if path.startswith("/") else _below(_working_directory(), path)


def _below(directory: str, path: str) -> str:
    # Keep "..": after a symbolic link, only the kernel knows where it leads.
    return path if not path or path.startswith("/") else f"{directory.rstrip('/')}/{path}"


def _working_directory() -> str:
    try:
        return posix.getcwd()
    except OSError as error:
        raise HostError("find the working directory", error) from None
