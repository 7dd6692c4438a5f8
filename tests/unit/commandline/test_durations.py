"""Durations on the command line, in Go's syntax."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.commandline.durations import FOREVER, interval, period, timeout


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
def test_interval(text: str, value: float) -> None:
    assert interval(text, "interval") == pytest.approx(value)


@pytest.mark.parametrize("text", ["0", "0s", "-5s", "-0", "+0"])
def test_no_time_at_all(text: str) -> None:
    with pytest.raises(UsageError, match=r"interval .*greater"):
        interval(text, "interval")


@pytest.mark.parametrize("text", ["", "5", "s", ".s", "5 s", "5x", "5s5", "1e3s", "+", "٣s"])
def test_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match=r'invalid value ".*" for flag -interval'):
        interval(text, "interval")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800),
        ("2s", 2),
        ("1h30m", 5400),
        ("0s", 0),
        ("0", 0),
        ("1.5h", 5400),
        ("100ms", 0.1),
        ("+1s", 1),
        ("1h0m0s", 3600),
    ],
)
def test_period(text: str, seconds: float) -> None:
    assert period(text, "grace-period") == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "s", "1x", "1 s", "1..5s", ".s", "-", "--1s", "1s-", "1e3s", "true", "9" * 20]
)
def test_no_period(text: str) -> None:
    with pytest.raises(UsageError, match="invalid duration"):
        period(text, "grace-period")


def test_a_period_is_not_negative() -> None:
    with pytest.raises(UsageError, match="negative"):
        period("-1s", "grace-period")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", 0), ("false", 0), ("0", 0), ("true", FOREVER), ("-1s", FOREVER), ("10s", 10)],
)
def test_timeout(text: str, seconds: float) -> None:
    assert timeout(text, "wait") == seconds
