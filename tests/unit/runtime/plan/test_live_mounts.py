"""The plans of `mounts add` and `mounts remove`."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.base.linux import CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER
from ociruntime.runtime.plan.live_mounts import (
    RunningContainer,
    compile_adding,
    compile_removing,
    compile_undoing,
)
from ociruntime.runtime.plan.operation_table import MOUNT_PRESENT
from ociruntime.runtime.plan.plan import Plan
from tests.unit.runtime.plan.compiling import config, facts, names, request, steps

BIND = {"destination": "/a", "source": "/host/a", "options": ["rbind"]}
TMPFS = {"destination": "/b", "type": "tmpfs", "source": "tmpfs", "options": ["ro"]}
RUNNING = RunningContainer(7, CLONE_NEWNS | CLONE_NEWPID)


def adding(*mounts: dict[str, Any], container: RunningContainer = RUNNING, **host: Any) -> Plan:  # noqa: ANN401
    document: Any = config(mounts=list(mounts))
    return compile_adding(document, facts(**host), request(), container)


def test_host_s_paths_are_opened_before_entering() -> None:
    plan = adding(BIND, TMPFS)
    assert names(plan) == ["open_tree", "join_process", "bind", "mount", "sync"]
    assert steps(plan, "join_process")[0]["flags"] == CLONE_NEWNS


def test_root_of_the_user_namespace_mounts() -> None:
    plan = adding(TMPFS, container=RunningContainer(7, CLONE_NEWNS | CLONE_NEWUSER))
    assert names(plan) == ["join_process", "become_root", "mount", "sync"]


def test_ids_of_the_container_s_user_namespace() -> None:
    mount = {**BIND, "options": ["rbind", "idmap"]}
    plan = adding(mount, container=RunningContainer(7, CLONE_NEWNS | CLONE_NEWUSER))
    opened = steps(plan, "open_namespace")[0]
    assert opened["source"] == "/proc/7/ns/user"
    assert steps(plan, "open_tree")[0]["id_map"] == opened["slot"]


def test_the_host_sees_each_mount_before_it_is_attached() -> None:
    plan = adding(BIND, TMPFS)
    flags = [each["flags"] for kind in ("bind", "mount") for each in steps(plan, kind)]
    assert all(each & MOUNT_PRESENT for each in flags)


def test_undoing_follows_links() -> None:
    undoing = compile_undoing("/a", "mounts[0]", facts(), request(), RUNNING)
    assert names(undoing) == ["join_process", "unmount", "sync"]
    assert steps(undoing, "unmount") == [{"target": "/a", "follow": 1}]


def test_removing_goes_backwards_and_follows_links_to_what_is_recorded() -> None:
    document: Any = config(mounts=[BIND, {"destination": "/a/../b/"}])
    plan = compile_removing(document, facts(), request(), RUNNING, {"/b"})
    assert steps(plan, "unmount") == [{"target": "/b", "follow": 1}, {"target": "/a", "follow": 0}]


@pytest.mark.parametrize("destination", ["/", "/proc", "/x/../proc", "/proc/kcore"])
def test_what_confines_the_container_stays(destination: str) -> None:
    mount = {**TMPFS, "destination": destination}
    document: Any = config(mounts=[mount])
    with pytest.raises(ConfigError):
        compile_removing(document, facts(), request(), RUNNING, set())
    with pytest.raises(ConfigError):
        adding(mount)


@pytest.mark.parametrize("host", [{"uid": 1000}, {"owns_mounts": False}])
def test_binds_need_root_of_the_host(host: dict[str, Any]) -> None:
    """What could not be opened before would be looked up in the container."""
    with pytest.raises(ConfigError, match=r"mounts\[1\].*root of"):
        adding(TMPFS, BIND, **host)
    assert "mount" in names(adding(TMPFS, **host))


def test_more_binds_than_can_be_opened() -> None:
    with pytest.raises(ConfigError, match="more than 256"):
        adding(*[{**BIND, "destination": f"/a{index}"} for index in range(300)])
