"""Options common to `create`, `run` and `plan`."""

from __future__ import annotations

import posix

from ociruntime.base.errors import HostError, UsageError
from ociruntime.runtime.lifecycle.options import CreateOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.runtime.lifecycle.options import Context


def container_options(arguments: Arguments, container_id: str, *, detach: bool) -> CreateOptions:
    """The options, with every path taken from the caller's working directory on.

    ``--config`` counts from the bundle, as with crun.  Raises UsageError, HostError.
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
    """Begin the one that ``--timeline`` asks for.  Raises UsageError, HostError."""
    path = caller_path(arguments, "timeline")
    if not path:
        return
    if not path.endswith((".svg", ".json")):
        raise UsageError(f"--timeline {path}: the name must end with .svg or .json")
    from ociruntime.runtime.lifecycle.timeline.timeline import Timeline

    context.timeline = Timeline(path, command)


def bundle_path(arguments: Arguments) -> str:
    """The absolute path of ``--bundle``, by default the working directory."""
    return caller_path(arguments, "bundle") or _working_directory()


def descriptor_count(arguments: Arguments) -> int:
    """The value of ``--preserve-fds``.  Raises UsageError."""
    count = arguments.number("preserve-fds")
    if count < 0:
        raise UsageError(f"--preserve-fds {count}: a count cannot be negative")
    return count


def caller_path(arguments: Arguments, name: str) -> str:
    """The path that an option names, from the caller's working directory on; or ""."""
    path = arguments.text(name)
    return absolute(path) if path else ""


def absolute(path: str) -> str:
    """The path from the caller's working directory on."""
    return path if path.startswith("/") else _below(_working_directory(), path)


def _below(directory: str, path: str) -> str:
    # Leave ".." unresolved: after a symbolic link only the kernel knows where it leads.
    return path if not path or path.startswith("/") else f"{directory.rstrip('/')}/{path}"


def _working_directory() -> str:
    try:
        return posix.getcwd()
    except OSError as error:
        raise HostError("find the working directory", error) from None
