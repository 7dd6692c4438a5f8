"""Attacks on the host from inside a container, or from a directory that somebody else prepared.

Each test is one attack and one row of the table that ``./dev attack`` prints: it passes if the
runtime withstands it.  The same tests judge runc and crun (``--runtime=/usr/sbin/runc``).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture(autouse=True)
def _watch(nothing_left: None) -> None:
    """Fail an attack that leaves anything behind."""


@pytest.fixture
def tries(pytestconfig: pytest.Config) -> Callable[[int, int], int]:
    """Return how often to try a race: ``tries(100, 2000)`` is 100, or 2000 in the long mode."""
    full = bool(pytestconfig.getoption("--full-attacks"))
    return lambda short, long: long if full else short
