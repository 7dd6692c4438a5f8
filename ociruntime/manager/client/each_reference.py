"""The loop of commands that take several references: try each, print the result of each."""

from __future__ import annotations

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.commandline.output import tell, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FAILED = 1


def each(refs: Iterable[str], act: Callable[[str], object]) -> int:
    """Call ``act`` for each reference; print the reference, or its error.

    Returns the exit status: 0, or that of the last failure (1, or 126 and 127 for a program that
    cannot be executed).  Raises HostError if the daemon cannot be reached.
    """
    status = 0
    for ref in refs:
        try:
            act(ref)
        except HostError:
            raise
        except RuntimeFailure as failure:
            print_failure(failure)
            status = getattr(failure, "exit_code", 0) or FAILED
        else:
            write(f"{ref}\n")
    return status


def print_failure(failure: RuntimeFailure) -> None:
    """Print a failure to standard error."""
    tell("ocictl", str(failure))
