"""A sample of the sweep of ``ocipod``, of a pod's monitor and of ``ocid``.

Each command is killed or interrupted, or a call of it fails, at some of its calls.  ``./dev sweep``
tries more of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import mutants, running, stepping
from tests.faults.daemons import DAEMON_SCENARIOS, DaemonRunner, DaemonScenario, DaemonStage
from tests.faults.monitors import SANDBOX, MonitorRunner
from tests.faults.mutants import POD_MUTATIONS, Mutation
from tests.faults.pods import POD_SCENARIOS, PODS_BY_NAME, PodRunner, PodScenario, PodStage
from tests.faults.stepping import ALL, CALLER, COMMAND, Action
from tests.faults.test_stepping import problems, sample
from tests.support import isolation
from tests.support.peers import judge_by
from tests.support.runtime import Runtime

pytestmark = [judge_by("ociruntime"), pytest.mark.slow]


@pytest.fixture(scope="module")
def pods(runtime: Runtime, base: Path) -> Iterator[PodRunner]:
    """A runner of scenarios, in a separate network namespace."""
    if reason := stepping.missing():
        pytest.skip(reason)
    with isolation.own_network():
        stage = PodStage(runtime.path, base / "pods")
        yield PodRunner(stage, stepping.build(base / "pods" / "stepper"))


@pytest.fixture(scope="module")
def daemons(runtime: Runtime, base: Path, pods: PodRunner) -> DaemonRunner:
    """A runner of requests to ``ocid``."""
    return DaemonRunner(DaemonStage(runtime.path, base / "daemon"), pods.stepper)


@pytest.mark.parametrize("scenario", POD_SCENARIOS, ids=[one.name for one in POD_SCENARIOS])
def test_killed_and_interrupted(scenario: PodScenario, pods: PodRunner) -> None:
    calls = pods.calls(scenario)
    actions = sample(running.kills(calls, (COMMAND, CALLER)), 1)
    actions += sample(running.kills(calls, (ALL,)), 1)
    actions += sample(running.interruptions(calls), 1)
    assert problems(pods, scenario, actions) == []


@pytest.mark.parametrize("scenario", POD_SCENARIOS, ids=[one.name for one in POD_SCENARIOS])
def test_failed_call(scenario: PodScenario, pods: PodRunner) -> None:
    assert problems(pods, scenario, sample(running.failures(pods.calls(scenario)), 1)) == []


def test_monitor(pods: PodRunner) -> None:
    """The monitor of a sandbox is killed, or its calls fail, while it serves requests."""
    monitor = MonitorRunner(pods.stage, pods.stepper)
    calls = monitor.calls(SANDBOX)
    actions = sample(monitor.kills(calls, (CALLER,)), 2) + sample(running.failures(calls), 2)
    assert problems(monitor, SANDBOX, actions) == []


@pytest.mark.parametrize("scenario", DAEMON_SCENARIOS, ids=[one.name for one in DAEMON_SCENARIOS])
def test_daemon(scenario: DaemonScenario, daemons: DaemonRunner) -> None:
    """The daemon is killed, or its calls fail, while it serves a client."""
    calls = daemons.calls(scenario)
    actions = sample(daemons.kills(calls, (COMMAND,)), 1) + sample(running.failures(calls), 1)
    assert problems(daemons, scenario, actions) == []


def test_interrupted_while_it_starts(pods: PodRunner) -> None:
    """A signal in the snapshot's interpreter, before it ran the command, printed a traceback."""
    calls = pods.calls(PODS_BY_NAME["pod-rm"])
    at = next(one for one in calls if one.call == "rt_sigprocmask").index + 1
    action = Action(running.INTERRUPT, COMMAND, stepping.FIRST, at)
    assert problems(pods, PODS_BY_NAME["pod-rm"], [action]) == []


@pytest.mark.long
@pytest.mark.parametrize("mutation", POD_MUTATIONS, ids=lambda one: one.name.replace(" ", "-"))
def test_mutant(mutation: Mutation, pods: PodRunner, runtime: Runtime, base: Path) -> None:
    """The sample detects a program with a defect."""
    scenario = PODS_BY_NAME[mutation.scenario]
    place = base / mutation.scenario
    program = mutants.build(mutation, runtime.path, place)
    mutant = PodRunner(PodStage(program, place / "pods"), pods.stepper)
    actions = sample(running.kills(mutant.calls(scenario), (ALL,)), 12)
    assert any(problems(mutant, scenario, [action]) for action in actions)
