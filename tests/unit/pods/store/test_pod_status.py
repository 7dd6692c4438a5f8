"""Descriptions of a pod from its files and state."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import PodError
from ociruntime.base.process import start_time
from ociruntime.pods.store import phases, pod_status
from ociruntime.pods.store.phases import Pod
from ociruntime.pods.store.pod_status import describe

MANIFEST: dict[str, Any] = {
    "apps": [{"name": "a", "image": {"id": "sha256:1", "name": "one"}}, {"name": "b"}],
    "annotations": [{"name": "ociruntime/mutable", "value": "true"}],
    "userLabels": {"tier": "web"},
}


def write(pod: Pod, name: str, value: object) -> None:
    place = Path(pod.path(), name)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(value if isinstance(value, str) else json.dumps(value))


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    with phases.new_pod(str(tmp_path)) as one:
        yield one


def test_one_that_has_nothing_yet(pod: Pod) -> None:
    found = describe(pod)
    assert (found["state"], found["apps"], found["mutable"]) == ("preparing", [], False)
    assert {"pid", "started_at"} & found.keys() == set()


def test_one_that_runs(pod: Pod) -> None:
    write(pod, "pod", MANIFEST)
    own = {"init_pid": os.getpid(), "init_start_time": start_time(os.getpid())}
    write(pod, "monitor.json", {**own, "started": "2026-01-02T03:04:05.678901234Z"})
    write(pod, "net-info.json", {"networks": [{"name": "n", "ip4": "10.0.0.2", "ip6": ""}]})
    finished = {"state": "exited", "exit_code": 137, "signal": 9, "stopped_by": "halt"}
    write(pod, "apps/a/state.json", finished)
    phases.to_run(pod)
    found = describe(pod)
    assert (found["state"], found["pid"], found["mutable"]) == ("running", os.getpid(), True)
    assert found["started_at"] == 1767323045
    assert found["networks"] == [{"name": "n", "ip4": "10.0.0.2"}]
    assert found["user_labels"] == {"tier": "web"}
    first, second = found["apps"]
    assert (first["state"], first["exit_code"], first["image_id"]) == ("exited", 137, "sha256:1")
    assert second == {"name": "b", "state": "unknown"}


def test_a_pid_that_means_another_process_by_now(pod: Pod) -> None:
    write(pod, "monitor.json", {"init_pid": os.getpid(), "init_start_time": 1})
    phases.to_run(pod)
    assert "pid" not in describe(pod)


def test_one_that_was_killed(pod: Pod) -> None:
    write(pod, "pod", MANIFEST)
    write(pod, "apps/a/state.json", {"state": "running"})
    write(pod, "apps/b/status", "3\n")
    phases.to_run(pod)
    pod.release()
    found = describe(pod)
    assert (found["state"], found["exited"]) == ("exited", True)
    assert [app["state"] for app in found["apps"]] == ["exited", "exited"]
    assert [app.get("exit_code") for app in found["apps"]] == [None, 3]


@pytest.mark.parametrize(
    "manifest", [{"apps": 5}, {"apps": [1]}, {"apps": [{"name": "a", "image": 3}]}]
)
def test_damage(pod: Pod, manifest: object) -> None:
    write(pod, "pod", manifest)
    with pytest.raises(PodError, match=f"pod {pod.uuid}: .*damaged"):
        describe(pod)
    problems: list[str] = []
    assert pod_status.try_describe(pod, problems) is None
    assert len(problems) == 1


@pytest.mark.parametrize("stamp", [None, 5, "", "yesterday"])
def test_what_is_no_time(stamp: object) -> None:
    assert pod_status.seconds(stamp) is None
