"""The end of a pod whose cleanup fails."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError
from ociruntime.pods.loop.worker import Outcome
from ociruntime.pods.monitor.monitor import Monitor
from ociruntime.pods.store import pod_cgroup

ACTION = "take down the networks of pod uuid"


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def monitor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warnings: list[str]
) -> Iterator[Monitor]:
    """A monitor that has not started anything."""
    monkeypatch.chdir(tmp_path)
    Path("runtime-config").write_text('{"runtime": "/bin/true"}')
    one = Monitor(str(tmp_path), "uuid", os.open("/dev/null", os.O_RDONLY), warnings.append)
    one.context.cgroups = []
    yield one
    os.close(one.lock)
    one.loop.close()


def exit_record() -> dict[str, object]:
    record: dict[str, object] = json.loads(Path("exit").read_text())
    return record


def test_networks_that_are_left(monitor: Monitor, warnings: list[str]) -> None:
    monitor._network_down(Outcome(ACTION, 0, {"problems": []}))
    assert (warnings, exit_record()["clean"]) == ([], True)
    assert monitor.loop.stopped


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome(ACTION, 0, {"problems": ["one", "two"]}), ["one", "two"]),
        (Outcome(ACTION, 254, {"error": "net-info.json is damaged"}), ["net-info.json is damaged"]),
        # The OOM killer, say, has killed the process: it has reported nothing.
        (Outcome(ACTION, 137, {}), ["with status 137"]),
    ],
)
def test_networks_that_are_not_left(
    monitor: Monitor, warnings: list[str], outcome: Outcome, expected: list[str]
) -> None:
    """Otherwise the next run of a sandbox would not repeat the cleanup."""
    monitor._network_down(outcome)
    assert not exit_record()["clean"]
    assert len(warnings) == len(expected)
    assert all(warning.endswith(end) for warning, end in zip(warnings, expected, strict=True))


def test_a_cgroup_that_is_not_empty(
    monitor: Monitor, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_cgroup, "remove", lambda _: ["/cgroup/of/pod"])
    monitor._end_processes()
    (warning,) = warnings
    assert warning.startswith('clean up pod uuid: the cgroup "/cgroup/of/pod" ')
    assert exit_record() == {"code": 0, "reason": "", "clean": False}


def test_a_record_of_an_app_that_cannot_be_written(
    monitor: Monitor, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, the disk is full: the other records are written."""
    for name in ("a", "b"):
        os.makedirs(f"apps/{name}")
        monitor.add_app({"name": name})

    monkeypatch.setattr(monitor.apps["a"]._file, "_directory", "none")
    monitor.apps["a"]._file.save_or_retry()
    monitor._end_processes()
    assert len(warnings) == 1
    assert "none/state.json" in warnings[0]
    assert exit_record()["clean"] is True


def test_an_error_during_the_wind_down(monitor: Monitor) -> None:
    """The monitor exits at once, without a record of a clean exit: gc cleans up after it."""
    monitor._winding_down = True
    monitor._fail(HostError("fork", OSError(11, "")))
    assert monitor.loop.stopped
    assert not Path("exit").exists()


def test_an_immutable_pod_without_apps(monitor: Monitor) -> None:
    monitor.attempt(monitor._start_apps)
    assert str(monitor.failure).startswith("start pod uuid: ")
    assert "no apps" in str(monitor.failure)
