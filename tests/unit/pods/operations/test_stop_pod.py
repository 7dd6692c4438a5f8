"""Stopping a pod whose monitor does not answer, or exits meanwhile."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, PodError
from ociruntime.base.process import start_time
from ociruntime.pods.operations import stop_pod
from ociruntime.pods.store import phases
from ociruntime.pods.store.pod import Pod


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pod]:
    """A running pod without a monitor: its lock is ours."""
    monkeypatch.setattr(stop_pod, "START_TIMEOUT", 0.2)
    with phases.new_pod(str(tmp_path)) as one:
        phases.to_run(one)
        yield one


@pytest.fixture
def monitor(pod: Pod) -> Iterator[subprocess.Popen[bytes]]:
    """A process that monitor.json names as the pod's monitor."""
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        record(pod, {"pid": process.pid, "start_time": start_time(process.pid)})
        yield process
        process.kill()


def record(pod: Pod, content: object) -> None:
    (Path(pod.path()) / "monitor.json").write_text(json.dumps(content))


def stop(pod: Pod, *, force: bool = False, wait: bool = False) -> bool:
    return stop_pod.stop_pod(pod, 10, force, wait)


def test_a_monitor_that_never_answers(pod: Pod, monitor: subprocess.Popen[bytes]) -> None:
    with pytest.raises(PodError, match=f"monitor of pod {pod.uuid}: not ready yet"):
        stop(pod)
    assert monitor.poll() is None


def test_with_force_it_is_killed(pod: Pod, monitor: subprocess.Popen[bytes]) -> None:
    assert stop(pod, force=True)
    assert monitor.wait(10) == -9


@pytest.mark.parametrize("content", [{}, {"pid": 1, "start_time": 1}])
def test_a_monitor_that_cannot_be_killed(pod: Pod, content: dict[str, int]) -> None:
    """It is unknown, or has exited: the error is that of the request."""
    record(pod, content)
    with pytest.raises(PodError, match="not ready yet"):
        stop(pod, force=True)


def test_a_monitor_that_may_not_be_killed(
    pod: Pod, monitor: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(pid: int, started: int, number: int) -> bool:
        raise HostError(f"send signal {number} to process {pid}", OSError(1, f"{started}"))

    monkeypatch.setattr(stop_pod, "signal_process", refuse)
    with pytest.raises(PodError, match="not ready yet"):
        stop(pod, force=True)
    assert monitor.poll() is None


@pytest.mark.parametrize("content", [{"pid": 5}, {"pid": "x", "start_time": 1}, {"pid": [1]}])
def test_a_damaged_record_of_the_monitor(pod: Pod, content: dict[str, object]) -> None:
    record(pod, content)
    with pytest.raises(PodError, match=f"of pod {pod.uuid}: monitor.json is damaged"):
        stop(pod, force=True)


def test_a_pod_that_exits_meanwhile(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that fails because the monitor exits is not an error."""

    def exit_first(one: Pod, request: dict[str, object], seconds: float) -> None:
        del request, seconds
        one.release()
        raise PodError("it exited before it answered")

    monkeypatch.setattr(stop_pod, "ask", exit_first)
    assert stop(pod, wait=True)
    assert pod.refresh() == "exited"
    assert not stop(pod)


def test_a_monitor_that_is_not_ready_at_first(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[dict[str, object]] = []

    def answer_later(one: Pod, request: dict[str, object], seconds: float) -> None:
        assert 0.1 <= seconds <= 0.2
        requests.append(request)
        if len(requests) < 3:
            raise PodError(f"connect to the monitor of pod {one.uuid}: not ready yet")

    monkeypatch.setattr(stop_pod, "ask", answer_later)
    monkeypatch.setattr(stop_pod, "_PAUSE", 0.001)
    assert stop(pod)
    assert requests == [{"op": "halt", "force": False, "seconds": 10}] * 3


def test_a_sandbox_that_is_run_again_at_once(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait ends although the pod is running: another run does not count."""
    record(pod, {"pid": 5, "start_time": 1})
    monkeypatch.setattr(stop_pod, "ask", lambda *_: None)
    pauses: list[float] = []

    def run_again(seconds: float) -> None:
        pauses.append(seconds)
        assert len(pauses) < 9
        if len(pauses) == 3:
            record(pod, {"pid": 5, "start_time": 2})

    monkeypatch.setattr("time.sleep", run_again)
    assert stop(pod, wait=True)
    assert len(pauses) == 3


def test_a_pod_that_has_not_run(tmp_path: Path) -> None:
    with (
        phases.new_pod(str(tmp_path)) as one,
        pytest.raises(PodError, match=f'pod {one.uuid} .* state is "preparing"'),
    ):
        stop(one)
