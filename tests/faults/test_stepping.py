"""A sample of the sweep: commands killed, and their calls failed, at some of their system calls.

``./dev sweep`` tries all of them.
"""

from __future__ import annotations

import dataclasses
import errno
from collections import Counter
from pathlib import Path

import pytest

from tests.faults import lasting, mutants, running
from tests.faults.lasting import WRITINGS, Writing
from tests.faults.mutants import MUTATIONS, Mutation
from tests.faults.running import (
    FAIL,
    INTERRUPT,
    KILL,
    ContainerRunner,
    One,
    Runner,
    at,
    describe,
    turning_points,
)
from tests.faults.scenarios import BY_NAME, Scenario
from tests.faults.stepping import FIRST, Action
from tests.support.peers import judge_by
from tests.support.runtime import Runtime

pytestmark = [judge_by("ociruntime"), pytest.mark.slow]

SPREAD = 3  # calls of each command besides its turning points

every = pytest.mark.parametrize("scenario", BY_NAME.values(), ids=BY_NAME)


def sample(actions: list[Action], number: int) -> list[Action]:
    """Return that many items, evenly spread; always the same for the same list."""
    stride = max(len(actions) / number, 1)
    return [actions[int(at * stride + stride / 2)] for at in range(min(number, len(actions)))]


def problems(runner: Runner[One], scenario: One, actions: list[Action]) -> list[str]:
    found = []
    for action in actions:
        result = runner.run(scenario, action)
        found += [f"{describe(action)}: {result.boundary}: {line}" for line in result.problems]
    return found


def kills(runner: ContainerRunner, scenario: Scenario) -> list[Action]:
    calls = runner.calls(scenario)
    turning = [at(KILL, point) for point in turning_points(calls)]
    return turning + sample(running.kills(calls), SPREAD)


def interruptions(runner: ContainerRunner, scenario: Scenario) -> list[Action]:
    calls = runner.calls(scenario)
    turning = [at(INTERRUPT, point) for point in turning_points(calls)]
    return turning + sample(running.interruptions(calls), SPREAD)


def failures(runner: ContainerRunner, scenario: Scenario) -> list[Action]:
    calls = runner.calls(scenario)
    turning = [at(FAIL, point) for point in turning_points(calls)]
    return turning + sample(running.failures(calls), SPREAD)


def interrupted_calls(runner: ContainerRunner, scenario: Scenario) -> list[Action]:
    """Return EINTR at each call of a command in C, and at those that Python does not repeat.

    The last calls come first: a command waits at its end.
    """
    calls = [one for one in runner.calls(scenario) if one.process == FIRST]
    if scenario.python:
        calls = [one for one in calls if one.call == "connect"]
    interrupted = [one for one in running.failures(calls) if one.detail == str(errno.EINTR)]
    return interrupted[::-1]


@pytest.fixture(autouse=True)
def _possible(request: pytest.FixtureRequest) -> None:
    """Skip a scenario that cannot be run on this host."""
    if "scenario" in request.fixturenames:
        scenario: Scenario = request.getfixturevalue("scenario")
        if scenario.obstacle:
            pytest.skip(scenario.obstacle)


@every
def test_killed(scenario: Scenario, runner: ContainerRunner) -> None:
    assert problems(runner, scenario, kills(runner, scenario)) == []


@every
def test_interrupted(scenario: Scenario, runner: ContainerRunner) -> None:
    assert problems(runner, scenario, interruptions(runner, scenario)) == []


@every
def test_failed_call(scenario: Scenario, runner: ContainerRunner) -> None:
    assert problems(runner, scenario, failures(runner, scenario)) == []


@pytest.mark.parametrize("name", ["start", "start-python", "kill"])
def test_interrupted_call(name: str, runner: ContainerRunner) -> None:
    """Each call is repeated after EINTR if nothing else repeats it."""
    actions = interrupted_calls(runner, BY_NAME[name])
    assert actions
    assert problems(runner, BY_NAME[name], actions) == []


@pytest.mark.parametrize("writing", WRITINGS, ids=lambda one: one.name)
def test_lasting_file(
    writing: Writing, runner: ContainerRunner, runtime: Runtime, work: Path
) -> None:
    """Its content is synced before it gets its name."""
    assert lasting.problems(runner.stepper, runtime.path, writing, work / "lasting") == []


def test_mutants_of_each_kind() -> None:
    """There are three mutants for each kind of defect that the sweep looks for."""
    counts = Counter(one.defect for one in MUTATIONS)
    assert min(counts[mutants.UNDO], counts[mutants.SYNC], counts[mutants.EINTR]) >= 3


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name.replace(" ", "-"))
def test_mutant(mutation: Mutation, runner: ContainerRunner, runtime: Runtime, work: Path) -> None:
    """The sample detects a program with a defect."""
    program = mutants.build(mutation, runtime.path, work / "mutant")
    if mutation.kind == mutants.SYNC:
        writing = next(one for one in WRITINGS if one.name == mutation.scenario)
        assert lasting.problems(runner.stepper, program, writing, work / "lasting")
        return
    scenario = BY_NAME[mutation.scenario]
    if mutation.file.endswith(".c"):  # one command: the rest is done by the whole program
        mutant = ContainerRunner(runner.stage, runner.stepper, program)
    else:
        mutant = ContainerRunner(dataclasses.replace(runner.stage, program=program), runner.stepper)
    found = {
        "kill": kills,
        "fail": failures,
        "interrupt": interruptions,
        mutants.EINTR: interrupted_calls,
    }[mutation.kind]
    actions = found(mutant, scenario)
    assert any(problems(mutant, scenario, [action]) for action in actions)
