"""Containers without their own cgroup (``--cgroup-manager disabled``): limits are refused."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.delegation import NoCgroup, visible_directories
from ociruntime.runtime.cgroups.hierarchies import Hierarchy, Layout

V1 = Layout(
    "v1",
    (
        Hierarchy(("cpu", "cpuacct"), "", "/sys/fs/cgroup/cpu,cpuacct", 1),
        Hierarchy((), "systemd", "/sys/fs/cgroup/systemd", 1),
    ),
)
DENY_ALL = {"allow": False, "access": "rwm"}
NULL = {"type": "c", "major": 1, "minor": 3}


def config(resources: dict[str, Any] | None, *capabilities: str) -> Any:  # noqa: ANN401
    process = {"capabilities": {"bounding": list(capabilities)}}
    return {"process": process, "linux": {"resources": resources}}


def test_the_caller_s_directories_are_shown() -> None:
    membership = "3:cpu,cpuacct:/a/b\n1:name=systemd:/\n0::/c\n"
    assert visible_directories(V1, membership) == (
        ("cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/a/b"),
        ("name=systemd", "/sys/fs/cgroup/systemd"),
    )
    unified = Layout("v2", (Hierarchy(("memory",), "", "/sys/fs/cgroup", 2),))
    assert visible_directories(unified, "0::/c\n") == (("", "/sys/fs/cgroup/c"),)


# -1 stands for any number, as without the member.
DENY_ANY = {**DENY_ALL, "type": "a", "major": -1, "minor": -1}


@pytest.mark.parametrize(
    "resources",
    [
        None,
        {},
        {"memory": {}},
        {"devices": [DENY_ALL, {**NULL, "allow": True}]},
        {"devices": [DENY_ANY]},
    ],
)
def test_nothing_is_made(resources: dict[str, Any] | None) -> None:
    cgroup = NoCgroup.plan_none(V1, config(resources))
    assert cgroup.paths == {}
    assert not cgroup.born_inside
    recorded = Cgroup.from_record(cgroup.record())
    assert recorded.processes() == []
    recorded.kill()
    recorded.remove(kill=True)


@pytest.mark.parametrize(
    ("resources", "capability", "where"),
    [
        ({"memory": {"limit": 1 << 20}}, "", "linux.resources.memory"),
        ({"unified": {"memory.high": "1"}}, "", "linux.resources.unified"),
        ({"devices": [DENY_ALL, {**NULL, "allow": False}]}, "", "linux.resources.devices[1]"),
        ({"devices": [DENY_ALL]}, "CAP_MKNOD", "linux.resources.devices[0]"),
    ],
)
def test_limits_are_refused(resources: dict[str, Any], capability: str, where: str) -> None:
    with pytest.raises(ConfigError, match="needs a cgroup") as caught:
        NoCgroup.plan_none(V1, config(resources, capability))
    assert caught.value.where == where
