"""A sample of the sweep of ``ocipod``: each command killed and interrupted at some of its calls.

``./dev sweep`` tries more of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import mutants, running, stepping
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
    """A runner of scenarios, in a network of its own."""
    if reason := stepping.missing():
        pytest.skip(reason)
    with isolation.own_network():
        stage = PodStage(runtime.path, base / "pods")
        yield PodRunner(stage, stepping.build(base / "pods" / "stepper"))


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


@pytest.mark.long
@pytest.mark.parametrize("mutation", POD_MUTATIONS, ids=lambda one: one.name.replace(" ", "-"))
def test_mutant(mutation: Mutation, pods: PodRunner, runtime: Runtime, base: Path) -> None:
    """The sample notices a program with a defect."""
    scenario = PODS_BY_NAME[mutation.scenario]
    place = base / mutation.scenario
    program = mutants.build(mutation, runtime.path, place)
    mutant = PodRunner(PodStage(program, place / "pods"), pods.stepper)
    actions = sample(running.kills(mutant.calls(scenario), (ALL,)), 12)
    assert any(problems(mutant, scenario, [action]) for action in actions)
