"""Times on the command line."""

from __future__ import annotations

import time

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.manager.client.since_and_until_options import moment


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", None),
        ("0", "1970-01-01T00:00:00.000000+00:00"),
        ("1700000000.25", "2023-11-14T22:13:20.250000+00:00"),
        ("10m", "2023-11-14T22:03:20.000000+00:00"),
        ("1h0.5s", "2023-11-14T21:13:19.500000+00:00"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000000+00:00"),
        ("2026-01-31T12:00:00+02:00", "2026-01-31T10:00:00.000000+00:00"),
    ],
)
def test_forms_of_a_time(text: str, meant: str | None) -> None:
    assert moment(text, "since", now=1_700_000_000) == meant


def test_a_time_without_a_zone_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-3")
    time.tzset()
    try:
        assert moment("2026-01-31", "since") == "2026-01-30T21:00:00.000000+00:00"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["yesterday", "10x", "2026-13-01", "-5m", "1" * 30, "10m "])
def test_wrong_times(text: str) -> None:
    with pytest.raises(UsageError, match=r"invalid time"):
        moment(text, "since")
