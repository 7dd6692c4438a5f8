"""Every test here runs real containers as root and may leave nothing behind."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _watch(nothing_left: None) -> None:
    """Have the watch in each test, asked for or not."""
