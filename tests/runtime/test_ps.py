"""`ps`: the processes of a container, as seen by the host."""

from __future__ import annotations

import json

import pytest

from tests.support import cgroupfs, processes
from tests.support.container import Container
from tests.support.peers import deviates, judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import Runtime

THREE = "sleep 1001 & sleep 1002 & echo ready; wait"
OWN_FORM = "has a form of its own"


def pids(one: Container) -> list[int]:
    found: list[int] = json.loads(one.runtime("ps", "--format", "json", one.id).ok().out)
    return found


def commands(one: Container) -> list[str]:
    return sorted(processes.describe(pid).partition("(")[2].rstrip(")") for pid in pids(one))


def test_json(container: MakeContainer, bundle: MakeBundle) -> None:
    one = container(bundle().shell(THREE)).started()
    one.wait_output("ready")
    assert processes.until(lambda: "sleep 1002" in commands(one))
    assert len(pids(one)) == 3
    assert one.pid in pids(one)


@deviates(crun=OWN_FORM)
def test_table(container: MakeContainer) -> None:
    one = container().started()
    heading, line = one.runtime("ps", one.id).ok().out.splitlines()
    assert heading.split()[:2] == ["UID", "PID"]
    assert line.split()[1] == str(one.pid)
    assert one.runtime("ps", "--format=table", one.id).ok().out.startswith("UID")


@deviates(crun=OWN_FORM)
def test_arguments_of_ps(container: MakeContainer) -> None:
    one = container().started()
    out = one.runtime("ps", one.id, "-e", "-o", "pid,args").ok().out
    assert [line.split()[0] for line in out.splitlines()] == ["PID", str(one.pid)]
    one.runtime("ps", one.id, "-e", "-o", "args").failed("PID field")
    one.runtime("ps", one.id, "--nonsense").failed()


@judge_by("ociruntime")
def test_without_an_environment(container: MakeContainer) -> None:
    one = container().started()
    assert str(one.pid) in one.runtime("ps", one.id, env={}).ok().out


@deviates(crun="leaves those out")
def test_cgroups_below_are_included(container: MakeContainer) -> None:
    one = container().started()
    pid = one.pid
    where = cgroupfs.of_process(pid)
    below = {directory / "below" for directory in where.values()}
    for directory in sorted(below):
        directory.mkdir()
        if (cpus := directory / "cpuset.cpus").exists() and not cgroupfs.is_v2():
            cpus.write_text((directory.parent / "cpuset.cpus").read_text())
            mems = directory / "cpuset.mems"
            mems.write_text((directory.parent / "cpuset.mems").read_text())
        (directory / "cgroup.procs").write_text(str(pid))
    assert pids(one) == [pid]
    one.delete("--force").ok()


@judge_by("ociruntime")
@pytest.mark.parametrize("namespace", [True, False])
def test_container_without_a_cgroup(
    container: MakeContainer, bundle: MakeBundle, namespace: bool
) -> None:
    made = bundle().shell(THREE)
    del made.linux["resources"]
    if not namespace:
        made.without_namespace("pid")
    one = container(made)
    one.runtime = Runtime(one.runtime.path, one.runtime.root, "--cgroup-manager=disabled")
    one.started()
    one.wait_output("ready")
    assert processes.until(lambda: "sleep 1002" in commands(one))
    assert len(pids(one)) == 3
    if namespace:
        joined = one.exec_detached("sleep", "1003")
        assert joined in pids(one)
    one.kill("KILL", everything=True).silent()
    one.end_executed()
    assert processes.until(lambda: not any(processes.alive(pid) for pid in pids(one)))


@judge_by("ociruntime")
def test_stopped_container(container: MakeContainer, bundle: MakeBundle) -> None:
    one = container(bundle("true")).started()
    one.wait()
    assert pids(one) == []
    assert one.runtime("ps", one.id).ok().out.count("\n") == 1


@deviates(crun="has words of its own")
def test_unknown_container(runtime: Runtime) -> None:
    runtime("ps", "nobody").failed("does not exist")
