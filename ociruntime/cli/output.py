"""Standard output, and how a program tells of its failure on standard error."""

from __future__ import annotations

import posix

from ociruntime.errors import HostError, InternalError
from ociruntime.log import plain

STDOUT = 1
STDERR = 2


def write(text: str) -> int:
    """All of ``text`` to standard output; the exit status: 1 if nobody reads any more.

    Raises HostError.
    """
    data = memoryview(text.encode("utf-8", "surrogateescape"))
    try:
        while data:
            data = data[posix.write(STDOUT, data) :]
    except BrokenPipeError:
        # `ociruntime list | head -1` is no mistake that needs a message.
        return 1
    except OSError as error:
        raise HostError("write to standard output", error) from None
    return 0


def report(program: str, message: str, error: BaseException, debug: bool) -> None:
    """One line in the name of ``program``, with ``debug`` the way to ``error`` behind it."""
    posix.write(STDERR, f"{program}: {plain(message)}\n".encode())
    if debug:
        import traceback

        traceback.print_exception(error)


def bug_of(error: Exception) -> InternalError:
    """In words: what nobody has caught."""
    text = " ".join(str(error).split())
    hint = "--debug shows the way there"
    return InternalError(f"internal error: {type(error).__name__}: {text}", hint)
