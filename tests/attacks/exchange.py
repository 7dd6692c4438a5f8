"""Races for a path: the hostile bundle (exchange.c), and the number of attempts until one is
hit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.support.bundle import Bundle

MakeHostile = Callable[..., Bundle]


class Met:
    """How the tries of a race ended: ``succeeded`` and ``failed`` are the least shares of them.

    A race of which one side has won every time was not tried.
    """

    def __init__(self, count: int, *, succeeded: float = 0.1, failed: float = 0.0) -> None:
        self._needed = (count * succeeded, count * failed)
        self._succeeded = 0
        self._failed = 0

    def note(self, succeeded: bool) -> None:
        """Count one."""
        self._succeeded += succeeded
        self._failed += not succeeded

    def __call__(self) -> bool:
        return self._succeeded >= self._needed[0] and self._failed >= self._needed[1]

    def check(self) -> None:
        """Assert it."""
        assert self(), f"{self._succeeded} succeeded, {self._failed} failed"


def until_met(count: int, met: Met) -> Iterator[int]:
    """Yield ``count`` numbers, and up to five times as many until the race was met.

    On a busy machine the one side can win most of the tries.
    """
    for number in range(5 * count):
        if number >= count and met():
            return
        yield number
