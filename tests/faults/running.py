"""One run: bring a container into its state, step a command, judge what is left."""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ociruntime.startup import snapshot
from tests.faults import judging
from tests.faults.calls import ERRORS
from tests.faults.scenarios import MEMORY, PIDS, Scenario, Stage
from tests.faults.stepping import (
    ALL,
    CALLER,
    COMMAND,
    FIRST,
    Action,
    Boundary,
    Outcome,
    names,
    step,
)
from tests.support import rootfs
from tests.support.bundle import Bundle

KILL, INTERRUPT, FAIL = "kill", "interrupt", "fail"
LIST = Action("list")
JUDGES = {
    KILL: judging.after_kill,
    INTERRUPT: judging.after_interruption,
    FAIL: judging.after_failure,
}


@dataclass(frozen=True)
class Result:
    """What one run has shown."""

    boundary: Boundary | None  # None: the command ended before it
    status: int | None
    problems: list[str]
    message: str = ""


def make_stage(program: Path, base: Path, name: str) -> Stage:
    """Make a bundle, with limits, for the container ``name``."""
    bundle = Bundle(base / "bundle", ())
    busybox = base / "busybox"
    shutil.copy(rootfs.BUSYBOX, busybox)
    rootfs.build(bundle.rootfs, {"bin/busybox": busybox})
    bundle.resources.update({"memory": {"limit": MEMORY}, "pids": {"limit": PIDS}})
    return Stage(program, base / "state", bundle, name)


class Runner:
    """Runs scenarios on a stage."""

    def __init__(self, stage: Stage, stepper: Path) -> None:
        self.stage = stage
        self.stepper = stepper
        self._warm = False

    def run(self, scenario: Scenario, action: Action) -> Result:
        """Run a scenario with an action, and clean up; the container is gone afterwards."""
        self.stage.bundle.args(*scenario.args).save()
        before = judging.look(self.stage)
        try:
            outcome = self._step(scenario, action)
            problems = JUDGES[action.kind](self.stage, scenario, before, outcome)
            if _must_be_repeated(action) and outcome.status != 0 and outcome.calls:
                problems.append(f"not repeated after EINTR: {outcome.err.strip()}")
        except BaseException:
            judging.clear(self.stage, before)
            raise
        boundary = outcome.calls[0] if action.kind != LIST.kind and outcome.calls else None
        return Result(boundary, outcome.status, problems, outcome.err.strip())

    def calls(self, scenario: Scenario) -> list[Boundary]:
        """Return the calls of an undisturbed run; the first run of all makes directories."""
        if not self._warm:
            self._warm = True
            self.calls(scenario)
        self.stage.bundle.args(*scenario.args).save()
        before = judging.look(self.stage)
        outcome = self._step(scenario, LIST)
        problems = judging.after_failure(self.stage, scenario, before, outcome)
        if problems or outcome.status != 0:
            raise RuntimeError(f"{scenario.name} undisturbed: {outcome.err} {problems}")
        return outcome.calls

    def _step(self, scenario: Scenario, action: Action) -> Outcome:
        with _starting(scenario.snapshot):
            scenario.before(self.stage)
            return step(self.stepper, action, scenario.command(self.stage))


def _must_be_repeated(action: Action) -> bool:
    """Return whether the call is to be repeated, as signals can interrupt it.

    No signal can interrupt the executor and then let it live: it has no handlers that return.  No
    file that a command opens is a slow device, so opendir(3) of the interpreter does without.
    """
    if action.kind != FAIL or int(action.detail) != errno.EINTR or action.process != FIRST:
        return False
    return action.number is None or names()[action.number] != "openat"


@contextlib.contextmanager
def _starting(from_snapshot: bool) -> Iterator[None]:
    """Let programs start the interpreter, unless they start from the snapshot."""
    if from_snapshot:
        yield
        return
    place = Path(snapshot.location({}, 0))
    kept = place.with_name(".kept")
    place.rename(kept)
    place.touch(mode=0o600)  # as after an attempt that showed that there can be none
    try:
        yield
    finally:
        kept.rename(place)


def kills(calls: list[Boundary], victims: tuple[str, ...] = (COMMAND, CALLER, ALL)) -> list[Action]:
    """Return the kills at every boundary, without those that are the same."""
    actions = []
    for victim in victims:
        for process, count in _counts(calls).items():
            if victim == CALLER and process == FIRST:
                continue  # the caller is the command
            actions += [Action(KILL, victim, process, n) for n in range(1, count + 1)]
    return actions


def interruptions(calls: list[Boundary]) -> list[Action]:
    """Return the interruptions of the command at every boundary, its own and its processes'."""
    return [Action(INTERRUPT, COMMAND, one.process, one.index) for one in calls]


def failures(calls: list[Boundary]) -> list[Action]:
    """Return each error of each call."""
    return [
        Action(FAIL, str(number), one.process, one.nth, one.number)
        for one in calls
        for number in ERRORS.get(one.call, ())
    ]


def _counts(calls: list[Boundary]) -> Counter[str]:
    return Counter(one.process for one in calls)


def describe(action: Action) -> str:
    """Return an action's name, which is its key in the file of results."""
    detail = errno.errorcode[int(action.detail)] if action.kind == FAIL else action.detail
    call = "" if action.number is None else f" {names()[action.number]}"
    return f"{action.kind} {detail} {action.process}{call} {action.index}"
