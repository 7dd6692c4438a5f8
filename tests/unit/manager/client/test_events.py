"""The lines of `ocictl events`."""

from __future__ import annotations

from ociruntime.manager.client.events import event_line


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
