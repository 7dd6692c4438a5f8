"""The fast path (csrc/fast_path/) gives exactly the same results as Python."""

from __future__ import annotations

import os

import pytest

from tests.support import cgroupfs, processes
from tests.support.container import Container
from tests.support.fast_path import LEFT_TO_PYTHON, Alone, after, plain
from tests.support.plugin import TAG, MakeBundle, MakeContainer
from tests.support.runtime import Runtime

pytestmark = pytest.mark.judge_by("ociruntime")

STATUSES = ("created", "running", "paused", "stopped")


def freeze(pid: int, frozen: bool = True) -> None:
    place = cgroupfs.directory(pid, "freezer")
    if cgroupfs.is_v2():
        (place / "cgroup.freeze").write_text(str(int(frozen)))
        events = place / "cgroup.events"
        assert processes.until(lambda: f"frozen {int(frozen)}" in events.read_text())
        return
    file, word = place / "freezer.state", "FROZEN" if frozen else "THAWED"
    file.write_text(word)
    assert processes.until(lambda: file.read_text().strip() == word)


def bring(one: Container, status: str) -> Container:
    """Return a container in that status."""
    one.created()
    if status != "created":
        one.start().silent()
    if status == "paused":
        freeze(one.pid)
    if status == "stopped":
        one.kill("KILL").silent()
        one.wait()
    return one


@pytest.mark.parametrize("status", STATUSES)
def test_state(
    container: MakeContainer, bundle: MakeBundle, alone: Alone, python: Runtime, status: str
) -> None:
    annotated = bundle()
    annotated.config["annotations"] = {"k": 'caf\u00e9 "pid": 0', "a": ""}
    one = bring(container(annotated), status)
    native, other = alone("state", one.id), python("state", one.id)
    assert f'"status": "{status}"' in native.out
    assert plain(native, one.id) == plain(other, one.id)
    if status == "paused":
        freeze(one.pid, frozen=False)


def wait_for_end(one: Container, expected: bool) -> None:
    """Wait for the exit after SIGKILL; a frozen process is thawed."""
    if processes.until(lambda: not processes.alive(one.pid), 10 if expected else 0.1):
        return
    if one.status == "paused":
        freeze(one.pid, frozen=False)


COMMANDS = (
    *("start", "kill", "kill 0", "kill KILL", "delete", "delete --force"),
    *("pause", "resume", "ps --format json"),
)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_agree(
    container: MakeContainer, runtime: Runtime, python: Runtime, status: str, command: str
) -> None:
    verb, *rest = command.split()
    ends = []
    for one, how in ((container(), runtime), (container(), python)):
        bring(one, status)
        result = how(verb, *rest, one.id) if verb == "ps" else how(verb, one.id, *rest)
        if verb == "ps":
            result.out = result.out.replace(str(one.pid), "PID")
        wait_for_end(one, "KILL" in command)
        ends.append((plain(result, one.id), *after(one, python)))
        one.exists = one.id in os.listdir(runtime.root)
    assert ends[0] == ends[1]


def test_whole_life_without_python(container: MakeContainer, alone: Alone) -> None:
    one = container().created()
    alone("start", one.id).silent()
    assert not (one.runtime.root / one.id / "start").exists()
    assert '"running"' in alone("state", one.id).ok().out
    for _ in range(2):
        alone("pause", one.id).silent()
        assert '"paused"' in alone("state", one.id).ok().out
    for _ in range(2):
        alone("resume", one.id).silent()
        assert '"running"' in alone("state", one.id).ok().out
    assert alone("ps", "--format", "json", one.id).ok().out == f"[{one.pid}]\n"
    alone("kill", one.id, "9").silent()
    one.wait()
    assert '"stopped"' in alone("state", one.id).ok().out
    alone("delete", one.id).silent()
    assert not (one.runtime.root / one.id).exists()
    one.exists = False


@pytest.mark.parametrize("status", ["created", "running"])
def test_delete_by_force_without_python(
    container: MakeContainer, alone: Alone, status: str
) -> None:
    one = bring(container(), status)
    alone("delete", "--force", one.id).silent()
    assert not processes.alive(one.pid)
    one.exists = False


def test_parents_of_the_cgroup(container: MakeContainer, bundle: MakeBundle, alone: Alone) -> None:
    """They are removed with the container that they were created for, if they are empty."""
    made = []
    for name in ("a", "b"):
        below = bundle()
        below.linux["cgroupsPath"] = f"/{TAG}parent/x/{name}"
        made.append(container(below).created())
    for one, left in zip(reversed(made), (True, False), strict=True):
        alone("delete", one.id).silent()
        one.exists = False
        assert bool(cgroupfs.named(f"{TAG}parent")) == left


def test_cgroup_that_was_there(container: MakeContainer, bundle: MakeBundle, alone: Alone) -> None:
    """It is not removed, and its members must be checked: Python does that."""
    places = [top / f"{TAG}adopted" for top in set(cgroupfs.hierarchies().values())]
    for place in places:
        place.mkdir()
    one = bundle()
    one.linux["cgroupsPath"] = f"/{TAG}adopted"
    made = container(one).created()
    for command in ("delete", "pause", "resume", "ps --format json"):
        alone(*command.split(), made.id).failed(LEFT_TO_PYTHON)
    made.delete().silent()
    cgroupfs.remove(set(places))


def test_cgroups_made_inside(container: MakeContainer, runtime: Runtime, alone: Alone) -> None:
    one = container().started()
    for place in set(cgroupfs.of_process(one.pid).values()):
        (place / "inner").mkdir()
    alone("ps", "--format", "json", one.id).failed(LEFT_TO_PYTHON)
    one.delete("--force").silent()
