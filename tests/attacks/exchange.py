"""Races on a path: the hostile bundle (exchange.c), and the number of attempts until one wins."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.support.bundle import Bundle

MakeHostile = Callable[..., Bundle]


class Met:
    """The outcomes of a race's attempts.

    ``succeeded`` and ``failed`` are their minimum shares: a race that one side has always won was
    not tested.
    """

    def __init__(self, count: int, *, succeeded: float = 0.1, failed: float = 0.0) -> None:
        self._needed = (count * succeeded, count * failed)
        self._succeeded = 0
        self._failed = 0

    def note(self, succeeded: bool) -> None:
        """Count the outcome of one attempt."""
        self._succeeded += succeeded
        self._failed += not succeeded

    def __call__(self) -> bool:
        return self._succeeded >= self._needed[0] and self._failed >= self._needed[1]

    def check(self) -> None:
        """Assert that both sides have won often enough."""
        assert self(), f"{self._succeeded} succeeded, {self._failed} failed"


def until_met(count: int, met: Met) -> Iterator[int]:
    """Yield ``count`` numbers, and up to five times as many until both sides have won.

    On a busy machine, one side can win most of the attempts.
    """
    for number in range(5 * count):
        if number >= count and met():
            return
        yield number
