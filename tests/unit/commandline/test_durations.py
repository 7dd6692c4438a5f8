"""Durations on the command line, as Go has them."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.commandline.durations import seconds


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5s", 5),
        ("+5s", 5),
        ("1m30s", 90),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("100ms", 0.1),
        ("250us", 0.00025),
        ("250µs", 0.00025),
        ("1h1m1s1ms", 3661.001),
    ],
)
def test_seconds(text: str, value: float) -> None:
    assert seconds(text, "interval") == pytest.approx(value)


@pytest.mark.parametrize("text", ["0", "0s", "-5s", "-0", "+0"])
def test_no_time_at_all(text: str) -> None:
    with pytest.raises(UsageError, match="duration interval must be greater than 0"):
        seconds(text, "interval")


@pytest.mark.parametrize("text", ["", "5", "s", ".s", "5 s", "5x", "5s5", "1e3s", "+", "٣s"])
def test_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match=r'invalid value ".*" for flag -interval'):
        seconds(text, "interval")
