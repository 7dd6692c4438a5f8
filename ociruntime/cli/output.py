"""Standard output."""

from __future__ import annotations

import posix

from ociruntime.errors import HostError

STDOUT = 1


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
