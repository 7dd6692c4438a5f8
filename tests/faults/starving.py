"""One case of starvation: a command with a shortage, and what it leaves behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass

from tests.faults import judging, small_pid_space
from tests.faults.running import Result
from tests.faults.scenarios import SCENARIOS, Scenario, Stage, running
from tests.faults.shortages import EVERY, SHORTAGES, Shortage
from tests.faults.stepping import Outcome, finish
from tests.faults.surroundings import Surroundings

INSPECTIONS = (
    Scenario("state", running, ("state", "{id}"), "running"),
    Scenario("list", running, ("list",), "running"),
    Scenario("ps", running, ("ps", "{id}"), "running"),
    Scenario("events", running, ("events", "--stats", "{id}"), "running"),
)
COMMANDS = (*SCENARIOS, *INSPECTIONS)


@dataclass(frozen=True)
class Case:
    """A command with a shortage."""

    scenario: Scenario
    shortage: Shortage

    def __str__(self) -> str:
        return f"{self.shortage.name}-{self.scenario.name}"

    @property
    def must_succeed(self) -> bool:
        return self.shortage.harmless == EVERY or self.scenario.name in self.shortage.harmless


def cases() -> Iterator[Case]:
    """Yield each command with each shortage."""
    for shortage in SHORTAGES:
        for scenario in COMMANDS:
            yield Case(scenario, shortage)


def run(stage: Stage, case: Case) -> Result:
    """Run a case, and clean up, including the container."""
    if case.shortage.small_pid_space:
        result: Result = small_pid_space.inside(lambda: _run(stage, case))
        return result
    return _run(stage, case)


def _run(stage: Stage, case: Case) -> Result:
    scenario, shortage = case.scenario, case.shortage
    stage.bundle.args(*scenario.args).save()
    outer = judging.look(stage)
    try:
        with shortage.before(stage):
            before = judging.look(stage)
            scenario.before(stage)
            with shortage.around(stage) as confinement:
                command = [*confinement.prefix, *scenario.command(stage)]
                outcome = finish(command, confinement.enter)
            problems = _problems(stage, case, before, outcome)
        problems += [f"left in the end: {line}" for line in judging.left(stage, outer)]
    except BaseException:
        judging.clear(stage, outer)
        raise
    return Result(None, outcome.status, problems, outcome.err.strip())


def _problems(stage: Stage, case: Case, before: Surroundings, outcome: Outcome) -> list[str]:
    killed = outcome.status == -signal.SIGKILL
    if killed and case.shortage.kills and not case.must_succeed:
        return judging.after_kill(stage, case.scenario, before, outcome)
    problems = []
    if outcome.status and case.must_succeed:
        problems.append(f"fails, although it needs nothing of that: {outcome.err.strip()}")
    elif outcome.status and not _names(case.shortage, outcome.err):
        problems.append(f"does not say what it lacks: {outcome.err.strip()}")
    return problems + judging.after_failure(stage, case.scenario, before, outcome)


def _names(shortage: Shortage, message: str) -> bool:
    return any(word in message.lower() for word in shortage.words)
