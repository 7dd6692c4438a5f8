"""Containers whose cgroup has enabled controllers for its children: it accepts no process then."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import cgroupfs
from tests.support.container import Container
from tests.support.plugin import MakeContainer


@pytest.fixture
def divided(container: MakeContainer, nothing_left: None) -> Iterator[Container]:
    """Its init is in ``payload/first``, as in a container with an init system."""
    one = container().started()
    place = cgroupfs.directory(one.pid, "")
    inner = place / "payload" / "first"
    inner.mkdir(parents=True)
    (inner / "cgroup.procs").write_text(str(one.pid))
    (place / "cgroup.subtree_control").write_text("+pids")
    yield one
    one.end_executed()


def path(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::")


def test_exec_goes_to_its_first_process(divided: Container) -> None:
    pid = divided.exec_detached("sleep", "50")
    assert path(pid) == path(divided.pid) == f"/{divided.id}/payload/first"


def test_exec_with_an_initial_affinity(divided: Container) -> None:
    """The process is moved into the cgroup, not cloned into it."""
    cpu = str(min(os.sched_getaffinity(0)))
    document = divided.bundle.path / "process.json"
    process = {"args": ["sleep", "50"], "cwd": "/", "user": {"uid": 0, "gid": 0}}
    document.write_text(json.dumps({**process, "execCPUAffinity": {"initial": cpu}}))
    pid = divided.exec_detached(f"--process={document}")
    assert path(pid) == path(divided.pid)


def test_exec_into_a_cgroup_that_is_asked_for(divided: Container) -> None:
    place = cgroupfs.hierarchies()[""] / divided.id
    (place / "beside").mkdir()
    pid = divided.exec_detached("--cgroup=beside", "sleep", "50")
    assert path(pid) == f"/{divided.id}/beside"
    refused = divided.exec("--cgroup=/", "true")
    assert refused.status == 255
    assert "for its children" in refused.err


def test_the_others_find_all_of_it(divided: Container) -> None:
    """pause, ps, kill --all and delete include the children."""
    pid = divided.exec_detached("sleep", "50")
    divided.runtime("pause", divided.id).silent()
    assert divided.status == "paused"
    divided.runtime("resume", divided.id).silent()
    shown = divided.runtime("ps", "--format", "json", divided.id).ok().out
    assert {int(word) for word in shown.strip().strip("[]").split(",")} == {pid, divided.pid}
    divided.kill("KILL", everything=True).silent()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
    divided.executed.remove(pid)
    assert divided.wait() == 137
    divided.delete().silent()
    assert not (cgroupfs.hierarchies()[""] / divided.id).exists()
