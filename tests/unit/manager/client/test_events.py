"""The lines of `ocictl events`."""

from __future__ import annotations

import time

import pytest

from ociruntime.manager.client.events import event_line, local_time


def test_labels_take_the_place_of_no_fact() -> None:
    """The creator of a container chooses its labels."""
    labels = {"name": "other", "image": "trusted", "exit_code": "0", "tier": "a\nb"}
    line = event_line(
        {
            "time": "2026-11-26T20:00:00+00:00",
            "kind": "die",
            "id": "abc",
            "name": "web",
            "attributes": {"exit_code": 1, "image": "busybox", "labels": labels},
        }
    )
    assert line.endswith(" die abc (name=web, exit_code=1, image=busybox, tier=a\\nb)\n")


@pytest.mark.parametrize(
    ("zone", "local"),
    [("UTC", "20:18:55.208"), ("XXX-2", "22:18:55.208"), ("XXX+5", "15:18:55.208")],
    ids=["utc", "east", "west"],
)
def test_times_are_local(zone: str, local: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A time is shown without its offset from UTC, also if that is negative."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert local_time("2026-11-24T20:18:55.208+00:00") == f"2026-11-24 {local}"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_text_that_is_no_time_is_shown_as_it_is() -> None:
    assert local_time("yesterday") == "yesterday"
