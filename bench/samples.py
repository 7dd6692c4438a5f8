"""Statistics of measured values (pure functions)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Within these bounds of one another, two costs of one more element count as the same.
STEEPER, FLATTER = 1.5, 0.67


@dataclass(frozen=True)
class Spread:
    """The median of some values, the quartiles around it, and the minimum."""

    median: float
    low: float
    high: float
    least: float


def spread(values: Sequence[float]) -> Spread:
    """Return what describes at least one value."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high, min(values))


def ratio(own: float, peer: float) -> float | None:
    """Return how many times the peer's value ours is, None if the peer's is 0."""
    return own / peer if peer else None


@dataclass(frozen=True)
class Growth:
    """The cost of one more element: up to the last count but one, and from there on."""

    early: float
    late: float

    def verdict(self, noise: float) -> str:
        """Describe the shape of the curve; a slope below ``noise`` counts as flat."""
        if self.late <= noise:
            return "constant" if self.early <= noise else "levels off"
        # If the first slope is that small, its ratio to the second is meaningless.
        before = max(self.early, noise)
        if self.late > before * STEEPER:
            return "more than linear"
        return "less than linear" if self.late < before * FLATTER else "linear"


def growth(costs: Mapping[int, float]) -> Growth:
    """Return the slopes between the last three costs by number of elements."""
    (first, low), (second, middle), (third, high) = sorted(costs.items())[-3:]
    return Growth((middle - low) / (second - first), (high - middle) / (third - second))
