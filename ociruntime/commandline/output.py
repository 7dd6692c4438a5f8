"""Write to standard output, and report a program's failure on standard error."""

from __future__ import annotations

import posix
from collections.abc import Iterable

from ociruntime.base import files
from ociruntime.base.errors import HostError
from ociruntime.base.log import plain, plain_lines

STDOUT = 1
STDERR = 2


def write(text: str) -> int:
    """Write ``text`` to standard output; return the program's exit status.

    The status is 1 if the reader has closed the pipe, else 0.  Raises HostError if writing fails
    for another reason.
    """
    try:
        # A closed pipe, as in `ociruntime list | head -1`, needs no error message.
        return 0 if write_all(STDOUT, text.encode("utf-8", "surrogateescape")) else 1
    except OSError as error:
        raise HostError("write to standard output", error) from None


def write_all(fd: int, data: bytes) -> bool:
    """Write ``data`` to the descriptor ``fd``; return False if the reader has closed the pipe.

    Raises OSError.
    """
    try:
        files.write_all(fd, data)
    except BrokenPipeError:
        return False
    return True


def write_lines(lines: Iterable[str]) -> int:
    """Write each text as a line to standard output, with unprintable characters escaped.

    Returns the program's exit status: 1 if the reader has closed the pipe, else 0.  Raises
    HostError if writing fails for another reason.
    """
    return write("".join([f"{plain(line)}\n" for line in lines]))


def tell(program: str, message: str) -> None:
    """Write one line, prefixed with ``program``, to standard error.  Raises OSError."""
    posix.write(STDERR, f"{program}: {plain(message)}\n".encode())


def report(program: str, message: str, error: BaseException, debug: bool) -> None:
    """Write a program's error message to standard error; with ``debug``, add the traceback."""
    tell(program, message)
    if debug:
        show_traceback(error)


def show_traceback(error: BaseException) -> None:
    """Write the traceback of ``error`` to standard error.  Raises OSError."""
    import traceback

    posix.write(STDERR, plain_lines("".join(traceback.format_exception(error))).encode())
