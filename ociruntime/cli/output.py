"""Standard output."""

from __future__ import annotations

import posix

from ..errors import HostError

STDOUT = 1


def write(text: str) -> None:
    """All of ``text`` to standard output.

    Raises HostError; BrokenPipeError if nobody reads any more.
    """
    data = memoryview(text.encode("utf-8", "surrogateescape"))
    try:
        while data:
            data = data[posix.write(STDOUT, data) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise HostError("write to standard output", error) from None
