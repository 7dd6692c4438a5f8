"""The owner of the container's cgroup on cgroup v2."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.runtime.plan.cgroup_mounts import NOBODY_ELSE, cgroup_owner
from tests.unit.runtime.plan.compiling import config

MOUNT = {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup"}
OWN = [{"type": "mount"}, {"type": "cgroup"}]
MAPPED = {
    "namespaces": [*OWN, {"type": "user"}],
    "uidMappings": [
        {"containerID": 0, "hostID": 100000, "size": 10},
        {"containerID": 10, "hostID": 7000, "size": 5},
    ],
}


def owner(mount: dict[str, Any] | None, uid: int = 0, **linux: Any) -> int:  # noqa: ANN401
    process = {"user": {"uid": uid, "gid": 0}}
    mounts = [mount] if mount else []
    linux = linux or {"namespaces": OWN}
    return cgroup_owner(config(process=process, linux=linux, mounts=mounts))  # type: ignore[arg-type]


@pytest.mark.parametrize(("uid", "on_host"), [(0, 100000), (9, 100009), (12, 7002), (15, -1)])
def test_mapped(uid: int, on_host: int) -> None:
    """LNX-CGOWN-03."""
    assert owner(MOUNT, uid, **MAPPED) == on_host


def test_without_a_user_namespace() -> None:
    assert owner(MOUNT, 5) == 5


def test_in_a_joined_user_namespace_nobody_knows() -> None:
    joined = [*OWN, {"type": "user", "path": "/proc/1/ns/user"}]
    assert owner(MOUNT, namespaces=joined) == NOBODY_ELSE


@pytest.mark.parametrize(
    "mount",
    [
        None,
        {**MOUNT, "options": ["nosuid", "ro"]},
        {**MOUNT, "options": ["rro"]},
        {**MOUNT, "destination": "/cgroup"},
        {**MOUNT, "source": "/sys/fs/cgroup", "type": "bind"},
        {**MOUNT, "source": "other"},
    ],
)
def test_without_a_writable_mount(mount: dict[str, Any] | None) -> None:
    """LNX-CGOWN-03 and -04."""
    assert owner(mount, 5) == NOBODY_ELSE


@pytest.mark.parametrize("options", [["rw"], ["ro", "rw"], ["nosuid"]])
def test_with_a_writable_mount(options: list[str]) -> None:
    assert owner({**MOUNT, "destination": "/sys/fs/cgroup/", "options": options}, 5) == 5


@pytest.mark.parametrize("namespaces", [OWN[:1], [*OWN[:1], {"type": "cgroup", "path": "/x"}]])
def test_without_a_cgroup_namespace_of_its_own(namespaces: list[dict[str, str]]) -> None:
    """LNX-CGOWN-02."""
    assert owner(MOUNT, 5, namespaces=namespaces) == NOBODY_ELSE


def test_without_a_process() -> None:
    document = config(linux={"namespaces": OWN}, mounts=[MOUNT])
    del document["process"]
    assert cgroup_owner(document) == 0  # type: ignore[arg-type]
