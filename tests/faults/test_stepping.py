"""A sample of the sweep: each command killed, and its calls failed, at some of its system calls.

``./dev sweep`` tries all of them.
"""

from __future__ import annotations

import dataclasses
import errno
import sys
from pathlib import Path

import pytest

from tests.faults import mutants, running
from tests.faults.mutants import MUTATIONS, Mutation
from tests.faults.running import ContainerRunner, One, Runner, describe
from tests.faults.scenarios import BY_NAME, Scenario
from tests.faults.stepping import Action, step
from tests.support.peers import judge_by
from tests.support.runtime import Runtime

pytestmark = [judge_by("ociruntime"), pytest.mark.slow]

KILLS, FAILURES = 6, 8  # of each command
MAKING = ("mkdir", "rename", "flock")

every = pytest.mark.parametrize("scenario", BY_NAME.values(), ids=BY_NAME)


def sample(actions: list[Action], number: int) -> list[Action]:
    """Return that many, spread evenly; always the same ones of the same list."""
    stride = max(len(actions) / number, 1)
    return [actions[int(at * stride + stride / 2)] for at in range(min(number, len(actions)))]


def problems(runner: Runner[One], scenario: One, actions: list[Action]) -> list[str]:
    found = []
    for action in actions:
        result = runner.run(scenario, action)
        found += [f"{describe(action)}: {result.boundary}: {line}" for line in result.problems]
    return found


def interruptions(runner: ContainerRunner, scenario: Scenario) -> list[Action]:
    """Return a sample, and all interruptions of calls that make something."""
    calls = runner.calls(scenario)
    actions = running.interruptions(calls)
    making = [a for a, call in zip(actions, calls, strict=True) if call.call in MAKING]
    return sample(actions, KILLS) + making


def interrupted_calls(runner: ContainerRunner, scenario: Scenario) -> list[Action]:
    actions = running.failures(runner.calls(scenario))
    return [one for one in actions if one.detail == str(errno.EINTR)]


def is_synced(runner: ContainerRunner, program: Path, work: Path) -> bool:
    """Return whether the package of a program syncs a lasting file before it renames it."""
    package = next((program.parent.parent / "lib").glob("*/site-packages"))
    script = f"import sys; sys.path.insert(0, {str(package)!r})\n"
    script += "from ociruntime.base.files import replace_file\n"
    script += f"replace_file({str(work / 'lasting')!r}, b'x', lasting=True)"
    done = step(runner.stepper, running.LIST, [sys.executable, "-I", "-c", script])
    assert done.status == 0, done.err
    calls = [one.call for one in done.calls]
    last = [one.path for one in done.calls].index(str(work / "lasting"))
    return "fsync" in calls[:last]


@pytest.fixture(autouse=True)
def _possible(request: pytest.FixtureRequest) -> None:
    """Skip a scenario that cannot be run on this host."""
    if "scenario" in request.fixturenames:
        scenario: Scenario = request.getfixturevalue("scenario")
        if scenario.obstacle:
            pytest.skip(scenario.obstacle)


@every
def test_killed(scenario: Scenario, runner: ContainerRunner) -> None:
    actions = running.kills(runner.calls(scenario))
    assert problems(runner, scenario, sample(actions, KILLS)) == []


@every
def test_interrupted(scenario: Scenario, runner: ContainerRunner) -> None:
    assert problems(runner, scenario, interruptions(runner, scenario)) == []


@every
def test_failed_call(scenario: Scenario, runner: ContainerRunner) -> None:
    actions = running.failures(runner.calls(scenario))
    assert problems(runner, scenario, sample(actions, FAILURES)) == []


@pytest.mark.parametrize("name", ["start", "kill"])
def test_interrupted_call(name: str, runner: ContainerRunner) -> None:
    """Each call of a command in C is repeated after EINTR, where nothing else repeats it."""
    assert problems(runner, BY_NAME[name], interrupted_calls(runner, BY_NAME[name])) == []


def test_lasting_file(runner: ContainerRunner, runtime: Runtime, work: Path) -> None:
    """Its contents are on the disk before it has its name."""
    assert is_synced(runner, runtime.path, work)


@pytest.mark.long
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name.replace(" ", "-"))
def test_mutant(mutation: Mutation, runner: ContainerRunner, runtime: Runtime, work: Path) -> None:
    """The sample notices a program with a defect."""
    program = mutants.build(mutation, runtime.path, work / "mutant")
    if mutation.kind == "sync":
        assert not is_synced(runner, program, work)
        return
    scenario = BY_NAME[mutation.scenario]
    mutant = ContainerRunner(dataclasses.replace(runner.stage, program=program), runner.stepper)
    actions = {
        "kill": lambda: sample(running.kills(mutant.calls(scenario)), KILLS),
        "fail": lambda: sample(running.failures(mutant.calls(scenario)), 2 * FAILURES),
        "EINTR": lambda: interrupted_calls(mutant, scenario),
        "interrupt": lambda: interruptions(mutant, scenario),
    }[mutation.kind]()
    assert any(problems(mutant, scenario, [action]) for action in actions)
