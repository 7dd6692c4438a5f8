"""What `create`, `run` and `plan` read from the command line in the same way."""

from __future__ import annotations

import posix

from ociruntime.errors import HostError, UsageError
from ociruntime.runtime.options import CreateOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments


def container_options(arguments: Arguments, container_id: str, *, detach: bool) -> CreateOptions:
    """The options, with every path taken from the caller's working directory on.

    ``--config`` counts from the bundle, as with crun.  Raises UsageError, HostError.
    """
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


def check_descriptors(count: int) -> None:
    """Refuses ``--preserve-fds`` while nothing but the caller's own descriptors is open.

    Later one of the runtime's own could be mistaken for a missing one and end up in the
    container.  Raises UsageError.
    """
    for fd in range(3, 3 + count):
        try:
            posix.fstat(fd)
        except OSError:
            raise UsageError(
                f"--preserve-fds {count}: descriptor {fd} is not open",
                f"descriptors 3 to {2 + count} must be open",
            ) from None


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
