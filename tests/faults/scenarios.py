"""The plan of commands: what is stepped, from which state of the container."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.stepping import Outcome, finish
from tests.support import processes
from tests.support.bundle import Bundle
from tests.support.fast_path import BY_PYTHON


@dataclass
class Stage:
    """A container's surroundings, the same for each run of a scenario."""

    program: Path
    root: Path
    bundle: Bundle
    id: str
    options: list[str] = field(default_factory=list)

    def command(self, *words: str) -> list[str]:
        return [str(self.program), "--root", str(self.root), *self.options, *words]

    def do(self, *words: str) -> Outcome:
        """Run a command outside the stepper; it must succeed."""
        done = finish([str(self.program), "--root", str(self.root), *words])
        if done.status != 0:
            raise RuntimeError(f"{words}: status {done.status}: {done.err}")
        return done

    @property
    def pid_file(self) -> Path:
        return self.bundle.path / "pid"

    @property
    def pid(self) -> int:
        return int(self.pid_file.read_text())


def absent(stage: Stage) -> None:
    """Have no container."""


def created(stage: Stage) -> None:
    stage.do(
        "create", "--bundle", str(stage.bundle.path), "--pid-file", str(stage.pid_file), stage.id
    )


def running(stage: Stage) -> None:
    created(stage)
    stage.do("start", stage.id)


def stopped(stage: Stage) -> None:
    running(stage)
    stage.do("kill", stage.id, "KILL")
    os.waitpid(stage.pid, 0)
    processes.until(lambda: not processes.alive(stage.pid))


def paused(stage: Stage) -> None:
    running(stage)
    stage.do("pause", stage.id)


MEMORY, PIDS = 1 << 26, 100
CREATED_WITH = (str(MEMORY), str(PIDS))
UPDATED_TO = (str(48 << 20), "50")


@dataclass(frozen=True)
class Scenario:
    """One command; ``words`` may contain {bundle}, {pid_file} and {id}."""

    name: str
    before: Callable[[Stage], None]
    words: tuple[str, ...]
    status: str = ""  # what `state` says after success
    limits: tuple[str, str] = CREATED_WITH  # the memory and pids limits after success
    makes: bool = False  # after an error there must be nothing left
    removes: bool = False  # after success there must be nothing left
    forwards: bool = False  # signals go to the program in the container
    python: bool = False  # leave everything to the interpreter
    snapshot: bool = True
    args: tuple[str, ...] = ("sleep", "1000")

    def command(self, stage: Stage) -> list[str]:
        values = {"bundle": stage.bundle.path, "pid_file": stage.pid_file, "id": stage.id}
        words = [word.format(**values) for word in self.words]
        return stage.command(*((BY_PYTHON,) if self.python else ()), *words)


CREATE = ("create", "--bundle", "{bundle}", "--pid-file", "{pid_file}", "{id}")
RUN = ("run", "--bundle", "{bundle}", "--pid-file", "{pid_file}", "{id}")
DETACHED = ("run", "--detach", *RUN[1:])
EXEC = ("exec", "{id}", "true")
START = ("start", "{id}")
KILL = ("kill", "{id}", "TERM")
DELETE = ("delete", "{id}")
FORCED = ("delete", "--force", "{id}")
UPDATE = ("update", "--memory", UPDATED_TO[0], "--pids-limit", UPDATED_TO[1], "{id}")

SCENARIOS = (
    Scenario("create", absent, CREATE, "created", makes=True),
    Scenario("create-interpreter", absent, CREATE, "created", makes=True, snapshot=False),
    Scenario("start", created, START, "running"),
    Scenario("start-python", created, START, "running", python=True),
    Scenario("run", absent, RUN, makes=True, removes=True, forwards=True, args=("true",)),
    Scenario("run-detached", absent, DETACHED, "running", makes=True),
    Scenario("exec", running, EXEC, "running", forwards=True),
    Scenario("kill", running, KILL, "running"),
    Scenario("kill-python", running, KILL, "running", python=True),
    Scenario("delete", stopped, DELETE, removes=True),
    Scenario("delete-python", stopped, DELETE, removes=True, python=True),
    Scenario("delete-running", running, FORCED, removes=True),
    Scenario("delete-running-python", running, FORCED, removes=True, python=True),
    Scenario("delete-paused", paused, FORCED, removes=True),
    Scenario("pause", running, ("pause", "{id}"), "paused"),
    Scenario("pause-python", running, ("pause", "{id}"), "paused", python=True),
    Scenario("resume", paused, ("resume", "{id}"), "running"),
    Scenario("resume-python", paused, ("resume", "{id}"), "running", python=True),
    Scenario("ps", running, ("ps", "--format", "json", "{id}"), "running"),
    Scenario("update", running, UPDATE, "running", UPDATED_TO),
)
BY_NAME = {one.name: one for one in SCENARIOS}
