"""The option ``--time``: the stop timeout."""

from __future__ import annotations

from ociruntime.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments


def seconds_to_end(arguments: Arguments) -> dict[str, int]:
    """Return the request's timeout; empty without the option, for the container's own.

    Raises UsageError.
    """
    if "time" not in arguments.numbers:
        return {}
    seconds = arguments.number("time")
    if seconds < 0:
        raise UsageError("--time: must be a number of seconds, 0 or more")
    return {"timeout": seconds}
