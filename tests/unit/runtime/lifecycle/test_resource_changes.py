"""An update seen together with the limits that are there."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.runtime.lifecycle.update import merged, requested_changes, to_write

FULL: dict[str, Any] = {
    "devices": [{"allow": True}],
    "memory": {"limit": 0, "reservation": 0, "swap": 0, "swappiness": (1 << 64) - 1},
    "cpu": {"shares": 0, "quota": 0, "period": 0, "cpus": "", "mems": ""},
    "blockIO": {"weight": 0, "leafWeight": 0},
}


def test_what_engines_leave_open_asks_for_nothing() -> None:
    assert requested_changes(FULL) == {}
    assert requested_changes(
        {"pids": {"limit": 0}, "cpu": {"idle": 0, "burst": 0, "shares": 0}}
    ) == {
        "pids": {"limit": 0},
        "cpu": {"idle": 0, "burst": 0},
    }
    assert requested_changes({"hugepageLimits": []}) == {"hugepageLimits": []}


@pytest.mark.parametrize(
    ("present", "change", "after", "written"),
    [
        ({}, {"limit": 5}, {"limit": 5}, {"limit": 5}),
        ({"limit": 5, "swap": 9}, {"limit": 6}, {"limit": 6, "swap": 9}, {"limit": 6, "swap": 9}),
        ({"limit": 5}, {"swap": 9}, {"limit": 5, "swap": 9}, {"limit": 5, "swap": 9}),
        ({"limit": 5, "swap": 9}, {"limit": -1}, {"limit": -1}, {"limit": -1}),
        (
            {"limit": 5, "swap": 9},
            {"reservation": 2},
            {"limit": 5, "swap": 9, "reservation": 2},
            {"reservation": 2},
        ),
        (
            {"limit": 5, "checkBeforeUpdate": True, "swappiness": 3},
            {"limit": 4},
            {"limit": 4, "checkBeforeUpdate": True, "swappiness": 3},
            {"limit": 4, "checkBeforeUpdate": True},
        ),
    ],
)
def test_memory(
    present: dict[str, Any], change: dict[str, Any], after: dict[str, Any], written: dict[str, Any]
) -> None:
    found = merged({"memory": present, "pids": {"limit": 1}}, {"memory": change})
    assert found == {"memory": after, "pids": {"limit": 1}}
    assert to_write({"memory": change}, found) == {"memory": written}


def test_others_are_merged_by_member() -> None:
    present = {"cpu": {"quota": 1, "period": 2}, "hugepageLimits": [{"pageSize": "2MB"}]}
    change = {"cpu": {"quota": 3}, "hugepageLimits": [], "unified": {"a.b": "1"}}
    after = merged(present, change)
    assert after == {
        "cpu": {"quota": 3, "period": 2},
        "hugepageLimits": [],
        "unified": {"a.b": "1"},
    }
    assert to_write(change, after) == change
