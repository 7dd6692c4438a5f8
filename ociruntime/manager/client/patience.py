"""``--time``: how long containers may take to end."""

from __future__ import annotations

from ociruntime.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def seconds_to_end(arguments: Arguments) -> dict[str, int]:
    """A part of a request: without the option the container's own time.  Raises UsageError."""
    if "time" not in arguments.numbers:
        return {}
    seconds = arguments.number("time")
    if seconds < 0:
        raise UsageError("--time takes a number of seconds, 0 or more")
    return {"timeout": seconds}
