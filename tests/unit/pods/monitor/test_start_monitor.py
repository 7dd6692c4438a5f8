"""Launch a pod's monitor: a failure to start it is reported."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, PodError
from ociruntime.pods.monitor import start_monitor as module
from ociruntime.pods.monitor.start_monitor import MONITOR_LOG, start_monitor
from ociruntime.pods.store import phases
from ociruntime.pods.store.phases import Pod


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    """A pod in phase run, with nothing in it."""
    with phases.new_pod(str(tmp_path)) as one:
        phases.to_run(one)
        yield one


def warn(text: str) -> None:
    raise AssertionError(text)


def test_without_its_log(pod: Pod) -> None:
    Path(pod.path(), MONITOR_LOG).mkdir()
    with pytest.raises(PodError) as caught:
        start_monitor(pod, lambda text: None)
    assert str(caught.value).endswith("monitor: is a directory")
    with phases.open_pod(pod.directory, pod.uuid) as left:
        assert left.state == "exited"


@pytest.mark.parametrize(
    ("die", "cause"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "signal 9"),
        (lambda: os._exit(3), "status 3"),
    ],
)
def test_a_monitor_that_dies_without_a_report(
    pod: Pod, monkeypatch: pytest.MonkeyPatch, die: Callable[[], None], cause: str
) -> None:
    monkeypatch.setattr(module, "_monitor", lambda pod, warn: die())
    with pytest.raises(PodError, match=cause) as caught:
        start_monitor(pod, warn)
    assert pod.uuid in str(caught.value)
    assert str(Path(pod.path(), MONITOR_LOG)) in caught.value.hint


def test_without_a_descriptor_left(pod: Pod) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(HostError, match=r"monitor of pod .*: too many open files"):
            start_monitor(pod, warn)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
