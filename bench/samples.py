"""Statistics of measured values (pure functions)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Two slopes whose ratio is within these bounds count as equal.
STEEPER, FLATTER = 1.5, 0.67


@dataclass(frozen=True)
class Spread:
    """Median, quartiles and minimum of some values."""

    median: float
    low: float
    high: float
    least: float


def spread(values: Sequence[float]) -> Spread:
    """Return the summary of a non-empty list of values."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high, min(values))


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest of the values that at least this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def ratio(own: float, peer: float) -> float | None:
    """Return the ratio of our value to the other runtime's, None if that is 0."""
    return own / peer if peer else None


@dataclass(frozen=True)
class Growth:
    """Milliseconds per additional element: between the third and second last count, and after."""

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
