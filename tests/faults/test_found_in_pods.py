"""Regression tests for the sweep's findings in ``ocipod``: calls that hung or left something."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import stepping
from tests.faults.pods import PODS_BY_NAME, PodRunner, PodStage
from tests.faults.running import FAIL, KILL, describe
from tests.faults.stepping import CALLER, Action
from tests.faults.test_found import Found
from tests.support import isolation
from tests.support.peers import judge_by
from tests.support.runtime import Runtime

pytestmark = [judge_by("ociruntime"), pytest.mark.slow]

# Processes of the sandbox.
INIT, LOCK_HOLDER = "0.1.1.1", "0.1.1"
WORKER = "0.2"  # the child of the monitor that writes the bundle
FOUND = [
    # a monitor that waited for ever for an init whose pid it did not know
    Found("pod-run", "read", errno.EIO, behind="/monitor/_pod_init", process="0"),
    # ... and for ever for the pid
    Found("app-sandbox", "write", errno.EINTR, process=LOCK_HOLDER),
    Found("app-sandbox", "write", errno.EIO, process=LOCK_HOLDER),
    # a monitor that waited for ever for a child that the kernel had given to pid 1
    Found("pod-run-prepared", "prctl", errno.EPERM, process="0"),
    # an app that only the monitor knew, after an interrupted `app add`
    Found("app-add", "recvfrom", errno.ENOMEM),
    # "internal error"
    Found("pod-run", "openat", errno.EMFILE, "/apps/busybox/work", process=WORKER),
    Found("pod-run", "newfstatat", errno.ENOMEM, "pods/busybox"),
    # a first failure, after which gc removed the pod, but for ever neither rules nor address
    Found("pod-gc-killed", "newfstatat", errno.EIO, "/net/.pods/"),
    # ... and success, though the address stayed: its directory could not be looked at
    Found("pod-rm-killed", "newfstatat", errno.EIO, "/net/default", process="0"),
    # ... nor the state of its containers
    Found("pod-gc-killed", "openat", errno.ENOSPC, "/run/ocipod/ociruntime"),
]


# Processes, and the call before which they are killed: the last one of its name.
EXECUTOR = "0.2.1"  # of an app's container, in `run`
KILLED = [
    # a monitor that waited for ever for the pid of an init that waited for the monitor
    ("app-sandbox", LOCK_HOLDER, "write"),
    # success, and the pod was over
    ("app-sandbox", INIT, "dup3"),
    ("app-sandbox", INIT, "read"),
    ("app-sandbox", INIT, "pivot_root"),
    ("app-sandbox", INIT, "prctl"),
    # a `create` that waited for ever for the pid of an init that waited for it
    ("pod-run", EXECUTOR, "sendmsg"),
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


@pytest.mark.parametrize(
    ("process", "call", "error"),
    [
        ("0.1", "write", errno.ENOSPC),  # a monitor's report that the pod is ready: hung
        ("0", "write", errno.EIO),  # the UUID: the pod ran on, without a word of it
        (INIT, "prctl", errno.EPERM),  # before the pid of the init was known: "internal error"
    ],
)
def test_last_call_fails(process: str, call: str, error: int, pods: PodRunner) -> None:
    scenario = PODS_BY_NAME["app-sandbox"]
    calls = [one for one in pods.calls(scenario) if (one.process, one.call) == (process, call)]
    one = calls[0] if process == INIT else calls[-1]
    result = pods.run(scenario, Action(FAIL, str(error), process, one.nth, one.number))
    assert result.boundary is not None
    assert result.status not in (0, None)
    assert result.problems == []


@pytest.mark.parametrize("which", [-2, -1])
def test_failed_wait_for_the_monitor(which: int, pods: PodRunner) -> None:
    """The pod, which the command takes for failed, does not run on."""
    scenario = PODS_BY_NAME["app-sandbox"]
    report = [one for one in pods.calls(scenario) if (one.process, one.call) == ("0", "read")]
    one = report[which]
    result = pods.run(scenario, Action(FAIL, str(errno.EIO), "0", one.nth, one.number))
    assert result.boundary is not None
    assert result.status not in (0, None)
    assert result.problems == []
    assert "start pod" in result.message


@pytest.mark.parametrize(("name", "process", "call"), KILLED)
def test_killed(name: str, process: str, call: str, pods: PodRunner) -> None:
    """A pod one of whose processes is killed during its start is an error at once."""
    scenario = PODS_BY_NAME[name]
    places = [one for one in pods.calls(scenario) if (one.process, one.call) == (process, call)]
    result = pods.run(scenario, Action(KILL, CALLER, process, places[-1].nth, places[-1].number))
    assert result.boundary is not None
    assert result.status not in (0, None)
    assert result.problems == [], result.boundary
