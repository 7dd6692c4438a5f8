"""The option ``--property-factor``, which extends the search."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

Searching = Callable[[int], settings]


@pytest.fixture
def searching(pytestconfig: pytest.Config) -> Searching:
    """Return settings of a search: ``searching(100)`` tries 100 configs, always the same ones.

    With ``--property-factor N``, it tries N times as many, and different ones each time.
    """
    factor = pytestconfig.getoption("--property-factor")
    return lambda examples: settings(
        max_examples=examples * factor,
        derandomize=factor == 1,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
