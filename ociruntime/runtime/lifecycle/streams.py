"""The standard streams of a container's process, specified as for subprocess (``api.py``)."""

from __future__ import annotations

import os
from collections.abc import Callable
from subprocess import DEVNULL
from typing import Protocol, TypeVar

from ociruntime.base.errors import UsageError, reason

Result = TypeVar("Result")


class HasDescriptor(Protocol):
    """An object with a method ``fileno``, such as an open file or a socket."""

    def fileno(self) -> int: ...


# A descriptor or an object with one, DEVNULL, or None for the caller's own, as with subprocess.
Stream = int | HasDescriptor | None


def with_streams(
    streams: tuple[Stream, Stream, Stream], act: Callable[[tuple[int, int, int]], Result]
) -> Result:
    """Call ``act`` with descriptors for stdin, stdout and stderr; return its result.

    Raises UsageError if one of them is not open.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC) if DEVNULL in streams else -1
    try:
        stdin, stdout, stderr = (
            _descriptor(name, own, stream, null)
            for own, (name, stream) in enumerate(
                zip(("stdin", "stdout", "stderr"), streams, strict=True)
            )
        )
        return act((stdin, stdout, stderr))
    finally:
        if null >= 0:
            os.close(null)


def _descriptor(name: str, own: int, stream: Stream, null: int) -> int:
    """Return the descriptor of ``stream``: ``own`` for None, ``null`` for DEVNULL.

    ``name`` is the stream's name in the error.  Raises UsageError if the descriptor is not open.
    """
    if stream is None:
        fd = own
    elif isinstance(stream, int):
        fd = null if stream == DEVNULL else stream
    else:
        fd = stream.fileno()
    for needed in (own, fd):
        try:
            os.fstat(needed)
        except OSError as error:
            raise UsageError(
                f"{name}: descriptor {needed} is not open ({reason(error)})",
                "open at least /dev/null as descriptors 0, 1 and 2, and pass only open descriptors",
            ) from None
    return fd
