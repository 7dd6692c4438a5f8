"""The scenarios: commands to step, and the initial state of the container."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.stepping import Outcome, finish
from tests.support import criu, processes
from tests.support.bundle import Bundle
from tests.support.fast_path import BY_PYTHON


@dataclass
class Stage:
    """The bundle and state root of a container, the same for each run of a scenario."""

    program: Path
    root: Path
    bundle: Bundle
    id: str
    options: list[str] = field(default_factory=list)

    def command(self, *words: str) -> list[str]:
        return [str(self.program), "--root", str(self.root), *self.options, *words]

    def do(self, *words: str) -> Outcome:
        """Run a command without the stepper; it must succeed."""
        done = finish([str(self.program), "--root", str(self.root), *words])
        if done.status != 0:
            raise RuntimeError(f"{words}: status {done.status}: {done.err}")
        return done

    @property
    def images(self) -> Path:
        """The directory of a checkpoint."""
        return self.root.parent / "images"

    @property
    def mounts_file(self) -> Path:
        """A file for ``mounts add``."""
        return self.root.parent / "mounts.json"

    @property
    def pid_file(self) -> Path:
        return self.bundle.path / "pid"

    @property
    def pid(self) -> int:
        return int(self.pid_file.read_text())


def absent(stage: Stage) -> None:
    """Set up no container."""


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


def with_mount(stage: Stage) -> None:
    running(stage)
    stage.do("mounts", "add", stage.id, str(stage.mounts_file))


def to_checkpoint(stage: Stage) -> None:
    """Set up a running container without a checkpoint."""
    shutil.rmtree(stage.images, ignore_errors=True)
    stage.images.mkdir()
    silent(stage.command(*words_of(CREATE, stage)))
    stage.do("start", stage.id)


def checkpointed(stage: Stage) -> None:
    to_checkpoint(stage)
    silent(stage.command(*words_of(CHECKPOINT, stage)))
    processes.reap_orphans()


def silent(command: list[str]) -> None:
    """Run a command, which must succeed; its output is the null device, which CRIU can restore."""
    null = subprocess.DEVNULL
    subprocess.run(command, stdin=null, stdout=null, stderr=null, check=True)


def words_of(words: tuple[str, ...], stage: Stage) -> list[str]:
    """Return the arguments of a command, with the values of the stage."""
    values = {
        "bundle": stage.bundle.path,
        "pid_file": stage.pid_file,
        "id": stage.id,
        "images": stage.images,
        "mounts": stage.mounts_file,
    }
    if "{criu}" in words:
        values["criu"] = criu.find()[0]
    return [word.format(**values) for word in words]


MOUNTED = "/mnt"
MOUNTS = [{"destination": MOUNTED, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]}]
MEMORY, PIDS = 1 << 26, 100
CREATED_WITH = (str(MEMORY), str(PIDS))
UPDATED_TO = (str(48 << 20), "50")


@dataclass(frozen=True)
class Scenario:
    """One command; ``words`` may contain the names in ``words_of``."""

    name: str
    before: Callable[[Stage], None]
    words: tuple[str, ...]
    status: str = ""  # what `state` says after success
    limits: tuple[str, str] = CREATED_WITH  # the memory and pids limits after success
    makes: bool = False  # after an error there must be nothing left
    removes: bool = False  # after success there must be nothing left
    otherwise: str = ""  # what `state` says after a failure
    mounted: bool | None = None  # whether MOUNTED is a mount after success; else it is as before
    needs_criu: bool = False
    forwards: bool = False  # signals go to the program in the container
    adds: bool = False  # after success the container has one more process
    python: bool = False  # leave everything to the interpreter
    snapshot: bool = True
    args: tuple[str, ...] = ("sleep", "1000")

    def command(self, stage: Stage) -> list[str]:
        words = words_of(self.words, stage)
        return stage.command(*((BY_PYTHON,) if self.python else ()), *words)

    @property
    def obstacle(self) -> str:
        """Return why it cannot be run here, or ""."""
        return criu.find()[1] if self.needs_criu else ""


CREATE = ("create", "--bundle", "{bundle}", "--pid-file", "{pid_file}", "{id}")
RUN = ("run", "--bundle", "{bundle}", "--pid-file", "{pid_file}", "{id}")
DETACHED = ("run", "--detach", *RUN[1:])
EXEC = ("exec", "{id}", "true")
EXEC_DETACHED = ("exec", "--detach", "{id}", "sleep", "1000")
START = ("start", "{id}")
KILL = ("kill", "{id}", "TERM")
DELETE = ("delete", "{id}")
FORCED = ("delete", "--force", "{id}")
UPDATE = ("update", "--memory", UPDATED_TO[0], "--pids-limit", UPDATED_TO[1], "{id}")
MOUNTS_ADD = ("mounts", "add", "{id}", "{mounts}")
MOUNTS_REMOVE = ("mounts", "remove", "{id}", "{mounts}")
CHECKPOINT = ("--criu", "{criu}", "checkpoint", "--image-path", "{images}", "{id}")
RESTORE = (
    *("--criu", "{criu}", "restore", "--detach", "--image-path", "{images}"),
    *("--bundle", "{bundle}", "--pid-file", "{pid_file}", "{id}"),
)

SCENARIOS = (
    Scenario("create", absent, CREATE, "created", makes=True),
    Scenario("create-interpreter", absent, CREATE, "created", makes=True, snapshot=False),
    Scenario("start", created, START, "running"),
    Scenario("start-python", created, START, "running", python=True),
    Scenario("run", absent, RUN, makes=True, removes=True, forwards=True, args=("true",)),
    Scenario("run-detached", absent, DETACHED, "running", makes=True),
    Scenario("exec", running, EXEC, "running", forwards=True),
    Scenario("exec-detached", running, EXEC_DETACHED, "running", adds=True),
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
# Not starved: of these only their own calls are swept.
MOUNTS_AND_CHECKPOINTS = (
    Scenario("mounts-add", running, MOUNTS_ADD, "running", otherwise="running", mounted=True),
    Scenario("mounts-remove", with_mount, MOUNTS_REMOVE, "running", mounted=False),
    Scenario(
        *("checkpoint", to_checkpoint, CHECKPOINT),
        removes=True,
        otherwise="running",
        needs_criu=True,
    ),
    Scenario("restore", checkpointed, RESTORE, "running", makes=True, needs_criu=True),
)
BY_NAME = {one.name: one for one in (*SCENARIOS, *MOUNTS_AND_CHECKPOINTS)}
