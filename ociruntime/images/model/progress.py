"""The type of callbacks that report the progress of long operations."""

from __future__ import annotations

from collections.abc import Callable

# Called often with (label such as "unpacking layer 2 of 3", bytes done, total bytes or 0 if
# unknown); the callback itself limits how often it prints.
Progress = Callable[[str, int, int], None]


def silent(kind: str, done: int, total: int) -> None:
    """Report nothing: a Progress callback for callers that show no progress."""
    del kind, done, total
