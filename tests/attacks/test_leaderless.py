"""A program whose main thread has exited looks like a zombie, but is not stopped.

Its other threads still run: if `delete` treated the container as stopped, they would keep running
unnoticed.
"""

from __future__ import annotations

import os
import select
import shutil
from pathlib import Path

import pytest

from tests.support import processes, static_program
from tests.support.bundle import Bundle
from tests.support.container import Container
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import Runtime

flags = pytest.mark.parametrize("flags", [[], ["--debug"]], ids=["fast path", "interpreter"])


@pytest.fixture
def leaderless(bundle: MakeBundle, base: Path) -> Bundle:
    program = base / "leaderless"
    if not program.exists():
        static_program.build(program, Path(__file__).with_name("leaderless.c"))
    made = bundle("/bin/leaderless")
    shutil.copy(program, made.rootfs / "bin" / "leaderless")
    return made


def going_on(one: Container) -> Container:
    one.started()
    assert processes.until(lambda: "going on" in one.output)
    return one


def has_ended(pidfd: int, seconds: float = 20) -> bool:
    """Wait until all threads have exited."""
    try:
        return bool(select.select([pidfd], [], [], seconds)[0])
    finally:
        os.close(pidfd)


@flags
def test_it_is_running(container: MakeContainer, leaderless: Bundle, flags: list[str]) -> None:
    one = going_on(container(leaderless))
    state = one.runtime(*flags, "state", one.id).ok().out
    assert '"status": "running"' in state
    assert f'"pid": {one.pid}' in state


@flags
def test_it_can_be_killed(container: MakeContainer, leaderless: Bundle, flags: list[str]) -> None:
    one = going_on(container(leaderless))
    pidfd = os.pidfd_open(one.pid)
    one.runtime(*flags, "kill", one.id, "KILL").ok()
    assert has_ended(pidfd)


@flags
def test_it_is_not_deleted(container: MakeContainer, leaderless: Bundle, flags: list[str]) -> None:
    one = going_on(container(leaderless))
    result = one.runtime(*flags, "delete", one.id)
    assert result.status != 0
    assert one.id in result.err
    assert not has_ended(os.pidfd_open(one.pid), seconds=0)


@judge_by("ociruntime")
@flags
def test_a_forced_deletion_ends_it(
    container: MakeContainer, leaderless: Bundle, flags: list[str]
) -> None:
    """Also without a cgroup, which would list the process, too."""
    one = container(leaderless)
    one.runtime = Runtime(one.runtime.path, one.runtime.root, "--cgroup-manager=disabled")
    pidfd = os.pidfd_open(going_on(one).pid)
    one.runtime(*flags, "delete", "--force", one.id).ok()
    one.exists = False
    assert has_ended(pidfd)
