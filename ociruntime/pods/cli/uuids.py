"""The UUIDs given on a command line, as arguments or by ``--uuid-file``."""

from __future__ import annotations

from ociruntime.base.errors import HostError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def given_uuid(arguments: Arguments) -> str:
    """Return the UUID of a command that takes one.  Raises UsageError, HostError."""
    return given_uuids(arguments)[0]


def given_uuids(arguments: Arguments) -> list[str]:
    """Return the UUIDs of a command that takes several.  Raises UsageError, HostError."""
    file = arguments.text("uuid-file")
    if bool(file) == bool(arguments.positional):
        raise UsageError("which pod?", "give either a UUID or --uuid-file=FILE")
    if not file:
        return arguments.positional
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            return [stream.read().strip()]
    except OSError as error:
        raise HostError(f"read {file}", error) from None
