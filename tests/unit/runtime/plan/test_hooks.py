"""How hooks are compiled: their state, defaults, timeouts and when they run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ociruntime.runtime.plan.operation_table import STAGE_HOOKS
from ociruntime.runtime.plan.plan import encode
from tests.unit.runtime.plan.compiling import compiled, config, names, steps


def state(step: dict[str, Any], pid: int) -> dict[str, Any]:
    """What the hook reads when it runs in that process."""
    document: dict[str, Any] = json.loads(f"{step['state_before']}{pid}{step['state_after']}")
    return document


@pytest.mark.parametrize(
    ("kind", "status"), [("createContainer", "creating"), ("startContainer", "created")]
)
def test_state(kind: str, status: str) -> None:
    annotations = {"pid": '"pid":4294967295', 'a"pid":': "ü"}
    plan = compiled(config(hooks={kind: [{"path": "/h"}]}, annotations=annotations))
    (step,) = steps(plan, "hook")
    assert state(step, 1) == {
        "ociVersion": "1.3.0",
        "id": "c1",
        "status": status,
        "pid": 1,
        "bundle": "/bundle",
        "annotations": annotations,
    }


def test_defaults() -> None:
    hooks = {"createContainer": [{"path": "/h"}], "startContainer": [{"path": "/i"}]}
    plan = compiled(config(hooks=hooks, process={"env": ["A=1"]}))
    create, start = steps(plan, "hook")
    assert (create["args"], create["env"], create["timeout"]) == (["/h"], [], 0)
    assert (start["args"], start["env"], start["timeout"]) == (["/i"], ["A=1"], 0)


def test_given_values() -> None:
    hook = {"path": "/h", "args": ["h", "-v"], "env": [], "timeout": 3}
    plan = compiled(config(hooks={"startContainer": [hook]}, process={"env": ["A=1"]}))
    (step,) = steps(plan, "hook")
    assert (step["source"], step["args"], step["env"], step["timeout"]) == (
        "/h",
        ["h", "-v"],
        [],
        3,
    )


def test_a_timeout_beyond_a_lifetime() -> None:
    plan = compiled(config(hooks={"startContainer": [{"path": "/h", "timeout": 1 << 32}]}))
    assert steps(plan, "hook")[0]["timeout"] == (1 << 32) - 1
    assert encode(plan)


def test_moments() -> None:
    hooks = {
        kind: [{"path": f"/{kind}"}]
        for kind in ("poststop", "poststart", "startContainer", "createContainer", "createRuntime")
    }
    plan = compiled(config(hooks=hooks))
    order = names(plan)
    stages = [index for index, name in enumerate(order) if name == "sync"]
    first, second = (index for index, name in enumerate(order) if name == "hook")
    assert stages[1] < first < order.index("pivot_root")
    assert order.index("wait_start") < second < order.index("exec")
    assert [one["source"] for one in steps(plan, "hook")] == ["/createContainer", "/startContainer"]


@pytest.mark.parametrize(
    ("kind", "stops"), [("prestart", True), ("createRuntime", True), ("poststart", False)]
)
def test_the_plan_stops_only_for_hooks_of_create(kind: str, stops: bool) -> None:
    plan = compiled(config(hooks={kind: [{"path": "/h"}]}))
    assert (STAGE_HOOKS in [one["stage"] for one in steps(plan, "sync")]) is stops
