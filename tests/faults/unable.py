"""Containers that cannot act: frozen in some way, or exiting."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.faults import judging, scenarios
from tests.faults.running import Result
from tests.faults.scenarios import Stage
from tests.faults.stepping import Outcome, finish
from tests.support import cgroupfs, processes

V1_FILE, V2_FILE = ("freezer.state", "FROZEN", "THAWED"), ("cgroup.freeze", "1", "0")
SECONDS = 5.0


def freezer() -> str:
    """Return the key in cgroupfs of the hierarchy with the freezer."""
    return "freezer" if "freezer" in cgroupfs.hierarchies() else ""


def freeze(place: Path, frozen: bool = True) -> None:
    file, on, off = V1_FILE if freezer() else V2_FILE
    (place / file).write_text(on if frozen else off)


def own(stage: Stage) -> Path:
    return cgroupfs.of_process(stage.pid)[freezer()]


def paused(stage: Stage) -> None:
    scenarios.paused(stage)


def created_paused(stage: Stage) -> None:
    scenarios.created(stage)
    freeze(own(stage))


def frozen_above(stage: Stage) -> None:
    scenarios.running(stage)
    freeze(own(stage).parent)


def frozen_below(stage: Stage) -> None:
    """Freeze a process in a cgroup below the container's, as a container could do."""
    scenarios.running(stage)
    below = own(stage) / "below"
    below.mkdir()
    (below / "cgroup.procs").write_text(str(_another(stage)))
    freeze(below)


def zombie(stage: Stage) -> None:
    """Set up an init that has exited, and was not reaped."""
    scenarios.running(stage)
    stage.do("kill", stage.id, "KILL")
    assert processes.until(lambda: processes.state(stage.pid) == "Z", SECONDS)


def dying(stage: Stage) -> None:
    """Set up an init that waits in its exit for a process that nobody reaps."""
    scenarios.running(stage)
    other = _another(stage)
    stage.do("kill", stage.id, "KILL")
    assert processes.until(lambda: processes.state(other) == "Z", SECONDS)


def _another(stage: Stage) -> int:
    """Start another process in the container; it becomes our child."""
    file = stage.bundle.path / "another"
    stage.do("exec", "--detach", "--pid-file", str(file), stage.id, "sleep", "1000")
    pid = int(file.read_text())
    file.unlink()
    return pid


KILL, FORCED = "kill-KILL", "delete-force"
COMMANDS: dict[str, tuple[str, ...]] = {
    "state": ("state", "{id}"),
    "list": ("list",),
    "ps": ("ps", "{id}"),
    "ps-json": ("ps", "--format", "json", "{id}"),
    "events": ("events", "--stats", "{id}"),
    "kill-TERM": ("kill", "{id}", "TERM"),
    KILL: ("kill", "{id}", "KILL"),
    "kill-all": ("kill", "--all", "{id}", "KILL"),
    "delete": ("delete", "{id}"),
    FORCED: ("delete", "--force", "{id}"),
    "exec": ("exec", "{id}", "true"),
    "pause": ("pause", "{id}"),
    "resume": ("resume", "{id}"),
    "update": ("update", "--memory", "50331648", "{id}"),
    "start": ("start", "{id}"),
    "checkpoint": ("checkpoint", "--image-path", "{images}", "{id}"),
}
KILLING = frozenset({KILL, "kill-all", FORCED})
ALIVE = frozenset({"delete", "start", "checkpoint"})  # commands that fail for one that lives


@dataclass(frozen=True)
class Condition:
    """A state of a container, and the commands that fail in it."""

    name: str
    bring: Callable[[Stage], None]
    failing: frozenset[str]
    immortal: bool = False  # no SIGKILL takes effect (on v1)


GONE = frozenset({"events", "kill-TERM", KILL, "exec", "pause", "resume", "update", "start"})
CONDITIONS = (
    Condition("paused", paused, ALIVE | {"exec"}),
    Condition("created-paused", created_paused, ALIVE | {"exec"}),
    Condition("frozen-above", frozen_above, ALIVE | {"exec", "resume"}, immortal=True),
    Condition("frozen-below", frozen_below, ALIVE),
    Condition("zombie", zombie, GONE | {"checkpoint"}),
    Condition("dying", dying, (ALIVE - {"delete"}) | {"exec"}),
)


@contextlib.contextmanager
def nested(stage: Stage) -> Iterator[Path]:
    """Move the container's cgroup below one of ours; the value is ours."""
    linux = stage.bundle.linux
    linux["cgroupsPath"] = f"/{stage.id}above/{stage.id}"
    stage.bundle.args("sleep", "1000").save()
    place = cgroupfs.hierarchies()[freezer()] / f"{stage.id}above"
    place.mkdir()
    try:
        yield place
    finally:
        del linux["cgroupsPath"]
        thaw(place)
        cgroupfs.remove(cgroupfs.named(f"{stage.id}above"))


def thaw(place: Path) -> None:
    for directory in (place, *(path for path in place.rglob("*") if path.is_dir())):
        with contextlib.suppress(FileNotFoundError):
            freeze(directory, frozen=False)


def run(stage: Stage, condition: Condition, command: str) -> Result:
    """Run a command on a container in that condition, and clean up."""
    images = stage.bundle.path / "images"
    with nested(stage) as above:
        before = judging.look(stage)
        try:
            condition.bring(stage)
            words = [word.format(id=stage.id, images=images) for word in COMMANDS[command]]
            outcome = finish(stage.command(*words))
            problems = _problems(stage, condition, command, outcome)
            shutil.rmtree(images, ignore_errors=True)
            thaw(above)
            processes.reap_orphans()
            problems += judging.cleaned(stage, before)
        except BaseException:
            thaw(above)
            judging.clear(stage, before)
            raise
    return Result(None, outcome.status, problems, outcome.err.strip())


def _problems(stage: Stage, condition: Condition, command: str, outcome: Outcome) -> list[str]:
    if outcome.hung:
        return ["the command hangs"]
    held = condition.immortal and freezer() != ""
    failing = condition.failing | ({FORCED} if held else frozenset())
    problems = []
    if outcome.status != 0:
        problems += judging.unclear(outcome)
        if command != "checkpoint" and stage.id not in outcome.err:
            problems.append(f"does not name the container: {outcome.err.strip()}")
    if (outcome.status != 0) != (command in failing):
        problems.append(f"status {outcome.status}: {outcome.err.strip()}")
    if command in KILLING and not held and not _dies(stage):
        problems.append("the container's init lives on")
    return problems + judging.untrue(stage)


def _dies(stage: Stage) -> bool:
    def dead() -> bool:
        processes.reap_orphans()
        return not processes.alive(stage.pid)

    return processes.until(dead, SECONDS)
