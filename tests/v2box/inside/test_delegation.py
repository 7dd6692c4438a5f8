"""An unprivileged user with a delegated cgroup: limits, and errors without one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import cgroupfs, ordinary_user
from tests.support.container import Container
from tests.support.ordinary_user import UID, OrdinaryUser
from tests.support.plugin import TAG, MakeBundle
from tests.support.runtime import Runtime

DELEGATED = ("", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control")


class InSession(OrdinaryUser):
    """The user in a cgroup that root has prepared, as at a login."""

    session: Path

    def words(self, *command: str) -> list[str]:
        script = 'echo $$ >"$0" && exec "$@"'
        return ["sh", "-c", script, f"{self.session}/cgroup.procs", *super().words(*command)]


@pytest.fixture
def delegated() -> Iterator[Path]:
    """A cgroup that root has delegated with pids, but without memory."""
    outer = cgroupfs.hierarchies()[""] / f"{TAG}outer"
    place = outer / "delegated"
    (place / "session").mkdir(parents=True)
    for directory in (outer.parent, outer, place):
        (directory / "cgroup.subtree_control").write_text("+pids")
    for directory in (place, place / "session"):
        for name in DELEGATED:
            os.chown(directory / name, UID, UID)
    yield place
    cgroupfs.remove(cgroupfs.named(outer.name))


@pytest.fixture
def user(
    delegated: Path, user_database: None, runtime: Runtime, work: Path, nothing_left: None
) -> OrdinaryUser:
    home = work / "home"
    (home / "run").mkdir(parents=True)
    ordinary_user.give(home, UID)
    user = InSession(runtime.path, home)
    user.session = delegated / "session"
    return user


def test_beside_the_session(user: OrdinaryUser, delegated: Path, bundle: MakeBundle) -> None:
    """The controllers are there, and the container starts there; nothing is left."""
    one = user.own(bundle("sleep", "1000"))
    one.resources["pids"] = {"limit": 17}
    made = Container(user, f"{TAG}one", one)
    try:
        made.started()
        assert cgroupfs.directory(made.pid, "") == delegated / made.id
        assert (delegated / made.id / "pids.max").read_text() == "17\n"
        assert made.delete("--force").status == 0
        assert not (delegated / made.id).exists()
    finally:
        made.finish()
        made.close()


def test_exec(user: OrdinaryUser, delegated: Path, bundle: MakeBundle) -> None:
    """It starts inside if the caller is in the delegated subtree; from elsewhere it is refused."""
    made = Container(user, f"{TAG}one", user.own(bundle("sleep", "1000")))
    try:
        made.started()
        executed = made.exec_detached("sleep", "50")
        assert cgroupfs.directory(executed, "") == delegated / made.id
        made.runtime = OrdinaryUser(user.path, user.home)
        refused = made.exec("true")
        assert refused.status == 255
        assert "permission denied" in refused.err
        assert "delegated to them" in refused.err
    finally:
        made.finish()
        made.close()


def test_its_own_root_of_cgroups(user: OrdinaryUser, delegated: Path, bundle: MakeBundle) -> None:
    one = user.own(bundle("cat", "/proc/self/cgroup")).namespace("cgroup")
    made = Container(user, f"{TAG}one", one)
    assert made.run().ok().out == "0::/\n"
    made.close()


def test_controller_that_is_not_delegated(user: OrdinaryUser, bundle: MakeBundle) -> None:
    one = user.own(bundle())
    one.resources["memory"] = {"limit": 1 << 26}
    made = Container(user, f"{TAG}one", one)
    try:
        made.create().failed(
            "linux.resources.memory.limit", 'controller \\"memory\\" is not available', "Delegate="
        )
    finally:
        made.finish()
        made.close()
