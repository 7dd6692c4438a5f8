"""A sample of the sweep of ``ocipod``: each command killed and interrupted at some of its calls.

``./dev sweep`` tries more of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import running, stepping
from tests.faults.pods import POD_SCENARIOS, PODS_BY_NAME, PodRunner, PodScenario, PodStage
from tests.faults.stepping import ALL, CALLER, COMMAND, Action
from tests.faults.test_stepping import problems, sample
from tests.support import isolation
from tests.support.peers import judge_by
from tests.support.runtime import Runtime

pytestmark = [judge_by("ociruntime"), pytest.mark.slow]


@pytest.fixture(scope="module")
def pods(runtime: Runtime, base: Path) -> Iterator[PodRunner]:
    """A runner of scenarios, in a network of its own."""
    if reason := stepping.missing():
        pytest.skip(reason)
    place = base / "pods"
    place.mkdir()
    with isolation.own_network():
        yield PodRunner(PodStage(runtime.path, place), stepping.build(place / "stepper"))


@pytest.mark.parametrize("scenario", POD_SCENARIOS, ids=[one.name for one in POD_SCENARIOS])
def test_killed_and_interrupted(scenario: PodScenario, pods: PodRunner) -> None:
    calls = pods.calls(scenario)
    actions = sample(running.kills(calls, (COMMAND, CALLER)), 1)
    actions += sample(running.kills(calls, (ALL,)), 1)
    actions += sample(running.interruptions(calls), 1)
    assert problems(pods, scenario, actions) == []


def test_interrupted_while_it_starts(pods: PodRunner) -> None:
    """A traceback, when the saved interpreter took the signal before it ran the command."""
    calls = pods.calls(PODS_BY_NAME["pod-rm"])
    at = next(one for one in calls if one.call == "rt_sigprocmask").index + 1
    action = Action(running.INTERRUPT, COMMAND, stepping.FIRST, at)
    assert problems(pods, PODS_BY_NAME["pod-rm"], [action]) == []
