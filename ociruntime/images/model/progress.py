"""Progress reports of long operations."""

from __future__ import annotations

from collections.abc import Callable

# (what is being done, for people: "unpacking layer 2 of 3"; units done; total units, 0 if
# unknown).  It is called often, and decides itself what to show.
Progress = Callable[[str, int, int], None]


def silent(kind: str, done: int, total: int) -> None:
    """Show nothing."""
    del kind, done, total
