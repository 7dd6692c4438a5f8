"""Statistics of the benchmarks."""

from __future__ import annotations

import pytest

from bench.samples import growth, quantile, ratio, spread


def test_spread() -> None:
    found = spread([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (found.median, found.low, found.high, found.least) == (3.0, 2.0, 4.0, 1.0)


def test_spread_of_one_value() -> None:
    found = spread([7.0])
    assert (found.median, found.low, found.high, found.least) == (7.0, 7.0, 7.0, 7.0)


@pytest.mark.parametrize(
    ("share", "value"), [(0.0, 1.0), (0.5, 2.0), (0.51, 3.0), (0.99, 4.0), (1.0, 4.0)]
)
def test_quantile(share: float, value: float) -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], share) == value


def test_ratio() -> None:
    assert ratio(3.0, 4.0) == 0.75
    assert ratio(3.0, 0.0) is None


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ({10: 5.0, 100: 5.1, 1000: 5.2}, "constant"),
        ({10: 10.0, 100: 19.0, 1000: 109.0}, "linear"),
        ({10: 10.0, 100: 19.0, 1000: 400.0}, "more than linear"),
        ({10: 10.0, 100: 19.0, 1000: 64.0}, "less than linear"),
        ({10: 10.0, 100: 19.0, 1000: 19.5}, "levels off"),
        # Noise makes the smaller counts look as if they cost less than nothing.
        ({10: 20.0, 100: 10.0, 1000: 100.0}, "more than linear"),
    ],
)
def test_growth(times: dict[int, float], verdict: str) -> None:
    assert growth(times).verdict(noise=0.005) == verdict


def test_growth_is_that_of_the_largest_counts() -> None:
    """Between few elements, noise is larger than what they cost."""
    found = growth({10: 50.0, 100: 20.0, 1000: 110.0, 2000: 210.0})
    assert found.early == pytest.approx(0.1)
    assert found.late == pytest.approx(0.1)
