"""One run: set up a container or pod, step a command, check what is left behind."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from ociruntime.startup import snapshot
from tests.faults import judging, surroundings
from tests.faults.calls import ERRORS
from tests.faults.scenarios import MEMORY, MOUNTED, MOUNTS, PIDS, Scenario, Stage
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
from tests.faults.surroundings import Surroundings
from tests.support import rootfs
from tests.support.bundle import Bundle

KILL, INTERRUPT, FAIL = "kill", "interrupt", "fail"
MAIN = "/ociruntime/__main__.py"  # the first file of ours that the interpreter opens
LOADER = "cannot read file data: "  # the dynamic loader does not repeat an interrupted read
LIST = Action("list")
LOCKING = {f"command {number}" for number in (fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_SETLKW)}
NO_LOCK = (errno.ENOLCK,)  # of these commands of fcntl(2); the others need a descriptor
# To unlock what was locked at once needs no memory.  If it failed, SQLite would wait for itself.
UNLOCKING = f"command {fcntl.F_SETLK} unlock"
JUDGES = {
    KILL: judging.after_kill,
    INTERRUPT: judging.after_interruption,
    FAIL: judging.after_failure,
}


@dataclass(frozen=True)
class Result:
    """The result of one run."""

    boundary: Boundary | None  # None: the command ended before it
    status: int | None
    problems: list[str]
    message: str = ""


def make_stage(program: Path, base: Path, name: str) -> Stage:
    """Create a bundle, with limits, for the container ``name``."""
    bundle = Bundle(base / "bundle", ())
    busybox = base / "busybox"
    shutil.copy(rootfs.BUSYBOX, busybox)
    rootfs.build(bundle.rootfs, {"bin/busybox": busybox})
    bundle.resources.update({"memory": {"limit": MEMORY}, "pids": {"limit": PIDS}})
    bundle.save()  # later it only changes: no look at the surroundings may find a new file
    stage = Stage(program, base / "state", bundle, name)
    stage.mounts_file.write_text(json.dumps(MOUNTS))
    (bundle.rootfs / MOUNTED.lstrip("/")).mkdir(exist_ok=True)
    return stage


class Steppable(Protocol):
    """The members of every scenario."""

    @property
    def name(self) -> str: ...
    @property
    def snapshot(self) -> bool: ...


One = TypeVar("One", bound=Steppable)


class Runner(ABC, Generic[One]):
    """Runs scenarios of one kind, which the subclass defines."""

    def __init__(self, stepper: Path) -> None:
        self.stepper = stepper
        self._warm = False
        self._calls: dict[str, list[Boundary]] = {}

    @abstractmethod
    def look(self) -> Surroundings:
        """Return the state of everything that a command may leave behind."""

    @abstractmethod
    def arrange(self, scenario: One) -> None:
        """Set up the state in which the scenario's command is run."""

    @abstractmethod
    def command(self, scenario: One) -> list[str]:
        """Return the command line; ``arrange`` was called before."""

    @abstractmethod
    def judge(self, kind: str, scenario: One, before: Surroundings, outcome: Outcome) -> list[str]:
        """Return what is wrong after the action, and clean up."""

    def run(self, scenario: One, action: Action) -> Result:
        """Run a scenario with an action, and clean up; nothing is left behind."""
        before = self.look()
        try:
            outcome = self.run_stepped(scenario, action)
            problems = self.judge(action.kind, scenario, before, outcome)
            repeated = outcome.status == 0 or LOADER in outcome.err
            if _must_be_repeated(action) and not repeated and outcome.calls:
                problems.append(f"not repeated after EINTR: {outcome.err.strip()}")
        except BaseException:
            surroundings.clear(self.look, before)
            raise
        boundary = outcome.calls[0] if action.kind != LIST.kind and outcome.calls else None
        return Result(boundary, outcome.status, problems, outcome.err.strip())

    def calls(self, scenario: One) -> list[Boundary]:
        """Return the calls of an undisturbed run; the very first run creates directories."""
        if scenario.name not in self._calls:
            if not self._warm:
                self._warm = True
                self.list_calls(scenario)
            self._calls[scenario.name] = self.list_calls(scenario)
        return self._calls[scenario.name]

    def list_calls(self, scenario: One) -> list[Boundary]:
        """Run the scenario undisturbed, and return its calls."""
        before = self.look()
        outcome = self.run_stepped(scenario, LIST)
        problems = self.judge(FAIL, scenario, before, outcome)
        if problems or outcome.status != 0:
            raise RuntimeError(f"{scenario.name} undisturbed: {outcome.err} {problems}")
        return outcome.calls

    def kills(self, calls: list[Boundary], victims: tuple[str, ...]) -> list[Action]:
        """Return the kills of the victims at every boundary."""
        return kills(calls, victims)

    def run_stepped(self, scenario: One, action: Action) -> Outcome:
        """Run the scenario's command under the stepper."""
        with _starting(scenario.snapshot):
            self.arrange(scenario)
            return step(self.stepper, action, self.command(scenario))


class ContainerRunner(Runner[Scenario]):
    """Runs the commands of a container on a stage.

    With ``tested``, that program is stepped, and the stage's own program does everything else.
    """

    def __init__(self, stage: Stage, stepper: Path, tested: Path | None = None) -> None:
        super().__init__(stepper)
        self.stage = stage
        self._tested = dataclasses.replace(stage, program=tested) if tested else stage

    def look(self) -> Surroundings:
        return judging.look(self.stage)

    def arrange(self, scenario: Scenario) -> None:
        self.stage.bundle.args(*scenario.args).save()
        scenario.before(self.stage)

    def command(self, scenario: Scenario) -> list[str]:
        return scenario.command(self._tested)

    def judge(
        self, kind: str, scenario: Scenario, before: Surroundings, outcome: Outcome
    ) -> list[str]:
        return JUDGES[kind](self.stage, scenario, before, outcome)


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
    """Let programs start the interpreter, except those that start from the snapshot."""
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


TURNING = ("mkdir", "rename", "flock", "clone3")


def turning_points(calls: list[Boundary]) -> list[Boundary]:
    """Return the first and the last of the command's own calls that create or publish something.

    They are the same in each run.  A sample spread over all calls is not, because the number of
    calls varies slightly.
    """
    own = [one for one in calls if one.process == FIRST]
    each = [[one for one in own if one.call == name] for name in TURNING]
    return sorted(
        {one[at].index: one[at] for one in each if one for at in (0, -1)}.values(),
        key=lambda one: one.index,
    )


def at(kind: str, point: Boundary) -> Action:
    """Return a kill or interruption of the command, or a failure, at one of its own calls."""
    detail = COMMAND
    if kind == FAIL:
        errors = [number for number in ERRORS[point.call] if number != errno.EINTR]
        detail = str(errors[0])
    return Action(kind, detail, point.process, point.nth, point.number)


def failures(calls: list[Boundary]) -> list[Action]:
    """Return each error of each call, except during the start of an interpreter.

    There, the dynamic loader and Python neither repeat nor explain a failed call, and no code of
    ours runs.
    """
    begin = next((at for at, one in enumerate(calls) if _starts_python(one)), len(calls))
    end = next((at for at in range(begin, len(calls)) if calls[at].path.endswith(MAIN)), begin + 1)
    return [
        Action(FAIL, str(number), one.process, one.nth, one.number)
        for one in (*calls[: begin + 1], *calls[end:])
        for number in _errors(one)
    ]


def _errors(one: Boundary) -> tuple[int, ...]:
    """Return the errors with which the kernel may refuse a call."""
    if one.path == UNLOCKING:
        return ()
    return NO_LOCK if one.path in LOCKING else ERRORS.get(one.call, ())


def _starts_python(one: Boundary) -> bool:
    return one.call == "execve" and Path(one.path).name.startswith("python")


def _counts(calls: list[Boundary]) -> Counter[str]:
    return Counter(one.process for one in calls)


def describe(action: Action) -> str:
    """Return an action's name, which is its key in the file of results."""
    detail = errno.errorcode[int(action.detail)] if action.kind == FAIL else action.detail
    call = "" if action.number is None else f" {names()[action.number]}"
    return f"{action.kind} {detail} {action.process}{call} {action.index}"
