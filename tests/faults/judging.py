"""Check the result of a command: whether `state` is right, and whether anything is left behind."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.faults import surroundings
from tests.faults.scenarios import MOUNTED, Scenario, Stage
from tests.faults.stepping import Outcome, finish
from tests.faults.surroundings import Surroundings
from tests.support import cgroupfs, processes

NOT_DELETED = "was not deleted"  # what a failed `run` says of the container
KEPT_FOR_ALL = ".seccomp"  # compiled filters, of all containers of a state root
# So Python reports that its own start has failed, before any line of ours has run: with its paths,
# a traceback and the file.
INTERPRETER = "Python path configuration:"


def look(stage: Stage) -> Surroundings:
    return surroundings.look(cgroupfs.named(stage.id), _files(stage))


def _files(stage: Stage) -> set[str]:
    found = {str(path) for path in stage.bundle.path.iterdir()}
    if stage.root.exists():
        kept = stage.root / KEPT_FOR_ALL
        every = {path for path in stage.root.rglob("*") if path != kept}
        found |= {str(path) for path in every if kept not in path.parents}
    return found - {str(stage.pid_file)}


def left(stage: Stage, before: Surroundings) -> list[str]:
    """Return what is new, once exiting processes have had time to exit."""
    return surroundings.left(lambda: look(stage), before)


def clear(stage: Stage, before: Surroundings) -> None:
    """Remove by force what is new, so that the next run starts clean."""
    surroundings.clear(lambda: look(stage), before)


def untrue(stage: Stage) -> list[str]:
    """Return the contradictions between `state` and the kernel, once both had time to agree."""
    return surroundings.settled(lambda: _contradictions(stage))


def _contradictions(stage: Stage) -> list[str]:
    done = finish(stage.command("state", stage.id))
    if done.hung:
        return ["state hangs"]
    if done.status != 0:
        return [] if "does not exist" in done.err else [f"state fails: {done.err.strip()}"]
    document = json.loads(done.out)
    status, pid = document["status"], document["pid"]
    actual = _actual_status(pid)
    return [] if status == actual else [f"state says {status}, the kernel {actual} (pid {pid})"]


def _actual_status(pid: int) -> str:
    """Return a container's status, derived only from its process."""
    if pid == 0 or not processes.alive(pid):
        return "stopped"
    try:
        program = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return "stopped"
    for name in ("freezer", ""):
        place = cgroupfs.of_process(pid).get(name)
        if place is None:
            continue
        for file in ("freezer.state", "cgroup.freeze"):
            if (place / file).exists() and (place / file).read_text().strip() in {"FROZEN", "1"}:
                return "paused"
    return "created" if program.startswith("/memfd:") else "running"


def after_kill(
    stage: Stage, scenario: Scenario, before: Surroundings, outcome: Outcome
) -> list[str]:
    """Return what is wrong after a killed command, and clean up."""
    problems = ["the command hangs"] if outcome.hung else []
    # After success, the added process may have ended: it was killed, or one of its calls failed.
    if scenario.adds and outcome.status not in (None, 0, -signal.SIGKILL):
        problems += _miscounted(stage, outcome)
    problems += untrue(stage)
    return problems + cleaned(stage, before)


def _miscounted(stage: Stage, outcome: Outcome) -> list[str]:
    """Return what is wrong with the processes of a container after a command failed to add one."""
    procs = cgroupfs.directory(stage.pid, "pids") / "cgroup.procs"

    def judge() -> list[str]:
        count = len(procs.read_text().split())
        return [] if count == 1 else [f"status {outcome.status}, but {count} processes"]

    return surroundings.settled(judge)


def not_silent(outcome: Outcome) -> list[str]:
    """Return what is wrong with the output of a command that a signal has ended."""
    return [f"not silent: {outcome.err}"] if "Traceback" in outcome.err else []


def after_interruption(
    stage: Stage, scenario: Scenario, before: Surroundings, outcome: Outcome
) -> list[str]:
    """Return what is wrong after SIGINT, and clean up: the command must undo everything."""
    killed = outcome.status == 128 + signal.SIGINT and scenario.forwards  # the program
    if outcome.status != -signal.SIGINT and not killed:
        return after_failure(stage, scenario, before, outcome)
    problems = not_silent(outcome)
    if scenario.adds:
        problems += _miscounted(stage, outcome)
    if scenario.makes:
        problems += [f"not undone: {line}" for line in left(stage, before)]
    return problems + untrue(stage) + cleaned(stage, before)


def cleaned(stage: Stage, before: Surroundings) -> list[str]:
    """Run the cleanup command; return what is wrong with it and what it leaves behind."""
    problems = []
    done = finish(stage.command("delete", "--force", stage.id))
    if done.hung:
        problems.append("delete --force hangs")
    elif (done.status, done.err) != (0, ""):
        problems.append(f"delete --force: status {done.status}: {done.err.strip()}")
    problems += [f"left: {line}" for line in left(stage, before)]
    if problems:
        clear(stage, before)
    return problems + _reuse(stage, before)


def _reuse(stage: Stage, before: Surroundings) -> list[str]:
    """Check that the id can be used again."""
    for words in (("create", "--bundle", str(stage.bundle.path), stage.id), ("delete", stage.id)):
        done = finish(stage.command(*words))
        if done.status != 0:
            clear(stage, before)
            return [f"the id cannot be used again: {words[0]}: {done.err.strip()}"]
    return []


def after_failure(
    stage: Stage, scenario: Scenario, before: Surroundings, outcome: Outcome
) -> list[str]:
    """Return what is wrong after one failed call of a command, and clean up."""
    problems = []
    if outcome.hung:
        problems.append("the command hangs")
    elif outcome.status != 0:
        problems += unclear(outcome)
        if scenario.makes and NOT_DELETED not in outcome.err:
            problems += [f"not undone: {line}" for line in left(stage, before)]
        if scenario.otherwise:
            problems += surroundings.settled(lambda: _changed(stage, scenario))
    elif scenario.status:
        problems += _incomplete(stage, scenario)
    elif scenario.removes:
        problems += [f"success, but left: {line}" for line in left(stage, before)]
    if scenario.adds and outcome.status not in (None, 0):
        problems += _miscounted(stage, outcome)
    problems += untrue(stage)
    return problems + cleaned(stage, before)


def _changed(stage: Stage, scenario: Scenario) -> list[str]:
    """Return what a failed command should have left unchanged."""
    done = finish(stage.command("state", stage.id))
    if scenario.removes and (stage.images / "inventory.img").exists():
        return []  # the checkpoint is complete: what failed is the removal
    status = json.loads(done.out)["status"] if done.status == 0 else done.err.strip()
    if status != scenario.otherwise:
        return [f"not undone: the container is {status}"]
    if scenario.mounted and _is_mounted(json.loads(done.out)["pid"]):
        return [f"not undone: {MOUNTED} is mounted"]
    return []


def _is_mounted(pid: int) -> bool:
    lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    return any(line.split()[4] == MOUNTED for line in lines)


def _incomplete(stage: Stage, scenario: Scenario) -> list[str]:
    """Return what a successful command has not done."""
    done = finish(stage.command("state", stage.id))
    if done.status != 0:
        return [f"success, but state fails: {done.err.strip()}"]
    document = json.loads(done.out)
    problems = []
    if document["status"] != scenario.status:
        problems.append(f"success, but the container is {document['status']}")
    pid = document["pid"]
    if not processes.alive(pid):
        return [*problems, "success, but the process is gone"]
    if scenario.mounted is not None and _is_mounted(pid) != scenario.mounted:
        problems.append(f"success, but {MOUNTED} is mounted: {not scenario.mounted}")
    places = cgroupfs.of_process(pid)
    outside = sorted(name for name, place in places.items() if stage.id not in place.parts)
    if outside:
        problems.append(f"success, but not in its cgroup of {outside}")
        return problems
    limits = (
        cgroupfs.setting(pid, "memory", "memory.limit_in_bytes", "memory.max"),
        cgroupfs.setting(pid, "pids", "pids.max", "pids.max"),
    )
    if limits != scenario.limits:
        problems.append(f"success, but the limits are {limits}")
    return problems


def unclear(outcome: Outcome) -> list[str]:
    """Return what is wrong with the error message."""
    text = outcome.err.strip()
    if outcome.status is not None and outcome.status < 0:
        return [f"died of signal {-outcome.status}: {text}"]
    if not text:
        return [f"status {outcome.status} without a message"]
    if text.startswith(INTERPRETER):
        return []
    if "Traceback" in text or "internal error" in text.lower():
        return [f"no clear error: {text}"]
    return []
