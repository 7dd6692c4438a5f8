"""Containers in one pid namespace: killing one kills all of its processes and no others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.container import Container
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.refusal import needs_joined_proc

pytestmark = judge_by("ociruntime")


def member(container: MakeContainer, bundle: MakeBundle, sandbox: Container) -> Container:
    """A container with three processes, one of them in a separate session."""
    made = bundle().shell("setsid sleep 1000 & sleep 1000 & exec sleep 1000")
    made.namespace("pid", f"/proc/{sandbox.pid}/ns/pid")
    one = container(made).started()
    assert processes.until(lambda: len(living(one)) == 3)
    return one


def living(one: Container) -> list[int]:
    """Return its processes by its cgroup, without zombies."""
    return [pid for pid in members(one) if processes.alive(pid)]


def members(one: Container) -> list[int]:
    words = one.runtime("ps", "--format", "json", one.id).ok().out
    return [int(word) for word in words.strip().strip("[]").split(",") if word.strip()]


@pytest.mark.parametrize(
    "words",
    [("kill", "--all", "{}", "KILL"), ("kill", "{}", "KILL"), ("delete", "--force", "{}")],
    ids=" ".join,
)
@needs_joined_proc
def test_one_ends_and_the_others_live(
    container: MakeContainer, bundle: MakeBundle, words: tuple[str, ...]
) -> None:
    sandbox = container().started()
    first = member(container, bundle, sandbox)
    second = member(container, bundle, sandbox)
    ended, left = living(first), living(second)
    assert os.readlink(f"/proc/{ended[0]}/ns/pid") == os.readlink(f"/proc/{left[0]}/ns/pid")
    sandbox.runtime(*[word.format(first.id) for word in words]).silent()
    first.exists = words[0] != "delete"
    assert processes.until(lambda: not any(processes.alive(pid) for pid in ended))
    assert living(second) == left
    assert sandbox.status == second.status == "running"
    assert Path(f"/proc/{sandbox.pid}").exists()


@needs_joined_proc
def test_procfs_is_that_of_the_shared_namespace(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """A process outside, with another procfs, creates the container."""
    sandbox = container().started()
    made = bundle().shell("readlink /dev/fd; cat /proc/1/comm; test -d /proc/self && echo $$")
    made.namespace("pid", f"/proc/{sandbox.pid}/ns/pid")
    link, first, own = container(made).run().ok().out.splitlines()
    assert (link, first) == ("/proc/self/fd", "sleep")
    assert int(own) > 1


@needs_joined_proc
def test_process_of_its_own_session(container: MakeContainer, bundle: MakeBundle) -> None:
    sandbox = container().started()
    made = bundle("sh", "-c", "cut -d' ' -f6 /proc/self/stat; echo $$")
    made.namespace("pid", f"/proc/{sandbox.pid}/ns/pid")
    session, own = container(made).run().ok().out.split()
    assert session == own
