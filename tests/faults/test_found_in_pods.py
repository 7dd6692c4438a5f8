"""Regression tests for the sweep's findings in ``ocipod``: calls that hung or left something."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import stepping
from tests.faults.pods import PODS_BY_NAME, PodRunner, PodStage
from tests.faults.running import describe
from tests.faults.test_found import Found
from tests.support import isolation
from tests.support.peers import judge_by
from tests.support.runtime import Runtime

pytestmark = [judge_by("ociruntime"), pytest.mark.slow]

WORKER = "0.2"  # the child of the monitor that writes the bundle
FOUND = [
    # a monitor that waited for ever for an init whose pid it did not know
    Found("pod-run", "read", errno.EIO, behind="/monitor/_pod_init", process="0"),
    # "internal error"
    Found("pod-run", "openat", errno.EMFILE, "/apps/busybox/work", process=WORKER),
    Found("pod-run", "newfstatat", errno.ENOMEM, "pods/busybox"),
    # a first failure, after which gc removed the pod, but for ever neither rules nor address
    Found("pod-gc-killed", "newfstatat", errno.EIO, "/net/.pods/"),
    # ... nor the state of its containers
    Found("pod-gc-killed", "openat", errno.ENOSPC, "/run/ocipod/ociruntime"),
]


@pytest.fixture(scope="module")
def pods(runtime: Runtime, base: Path) -> Iterator[PodRunner]:
    """A runner of scenarios, in a separate network namespace."""
    if reason := stepping.missing():
        pytest.skip(reason)
    with isolation.own_network():
        stage = PodStage(runtime.path, base / "found-pods")
        yield PodRunner(stage, stepping.build(base / "found-pods" / "stepper"))


@pytest.mark.parametrize("found", FOUND, ids=str)
def test_found(found: Found, pods: PodRunner) -> None:
    scenario = PODS_BY_NAME[found.scenario]
    action = found.action(pods.calls(scenario))
    result = pods.run(scenario, action)
    assert result.boundary is not None, describe(action)
    assert result.problems == [], result.boundary
