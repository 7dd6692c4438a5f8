"""What `create`, `run` and `plan` read from the command line in the same way."""

from __future__ import annotations

import posix

from ociruntime.errors import HostError, UsageError
from ociruntime.runtime.options import CreateOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments
    from ociruntime.runtime.options import Context


def container_options(
    context: Context, arguments: Arguments, container_id: str, *, detach: bool
) -> CreateOptions:
    """The options, with every path taken from the caller's working directory on.

    ``--config`` counts from the bundle, as with crun.  Raises UsageError, HostError.
    """
    if context.cgroup_manager == "disabled":
        raise UsageError("--cgroup-manager disabled is not supported yet")
    preserve_fds = arguments.number("preserve-fds")
    if preserve_fds < 0:
        raise UsageError(f"--preserve-fds {preserve_fds}: a count cannot be negative")
    bundle = bundle_path(arguments)
    return CreateOptions(
        container_id,
        bundle,
        _below(bundle, arguments.text("config")),
        _path(arguments, "console-socket"),
        _path(arguments, "pid-file"),
        arguments.flag("no-pivot"),
        arguments.flag("no-new-keyring"),
        preserve_fds,
        detach,
        arguments.flag("keep"),
        arguments.flag("no-subreaper"),
    )


def bundle_path(arguments: Arguments) -> str:
    """The absolute path of ``--bundle``, by default the working directory."""
    return _path(arguments, "bundle") or _working_directory()


def _path(arguments: Arguments, name: str) -> str:
    path = arguments.text(name)
    if not path or path.startswith("/"):
        return path
    return _below(_working_directory(), path)


def _below(directory: str, path: str) -> str:
    # Without touching "..": behind a symbolic link only the kernel knows where it leads.
    return path if not path or path.startswith("/") else f"{directory.rstrip('/')}/{path}"


def _working_directory() -> str:
    try:
        return posix.getcwd()
    except OSError as error:
        raise HostError("find the working directory", error) from None
