"""Commands that take several references: each is tried, and what was done is printed."""

from __future__ import annotations

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.commandline.output import tell, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FAILED = 1


def each(refs: Iterable[str], act: Callable[[str], object]) -> int:
    """Prints each reference as it is done, or why not; the exit status, which is 1 if one failed.

    A failure that has an exit status of its own (a program that is not there) gives that.
    Raises HostError: the daemon cannot be reached.
    """
    status = 0
    for ref in refs:
        try:
            act(ref)
        except HostError:
            raise
        except RuntimeFailure as failure:
            told(failure)
            status = getattr(failure, "exit_code", 0) or FAILED
        else:
            write(f"{ref}\n")
    return status


def told(failure: RuntimeFailure) -> None:
    """On standard error."""
    tell("ocictl", str(failure))
