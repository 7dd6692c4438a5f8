"""What `create`, `run` and `plan` read from the command line in the same way."""

from __future__ import annotations

import posix

from ociruntime.errors import UsageError
from ociruntime.runtime.options import CreateOptions, absolute_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.args import Arguments


def container_options(arguments: Arguments, container_id: str, *, detach: bool) -> CreateOptions:
    """The options, with every path taken from the caller's working directory on.

    Raises UsageError, HostError.
    """
    preserve_fds = arguments.number("preserve-fds")
    check_descriptors(preserve_fds)
    return CreateOptions(
        container_id,
        bundle_path(arguments),
        arguments.text("config", "config.json"),
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
    return absolute_path(arguments.text("bundle", "."))


def check_descriptors(count: int) -> None:
    """Refuses ``--preserve-fds`` while nothing but the caller's own descriptors is open.

    Later one of the runtime's own could be mistaken for a missing one and end up in the
    container.  Raises UsageError.
    """
    if count < 0:
        raise UsageError(f"--preserve-fds {count}: a count cannot be negative")
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
    return absolute_path(path) if path else ""
