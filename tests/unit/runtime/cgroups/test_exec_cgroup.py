"""The meaning of --cgroup."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import UsageError
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.cgroup_directory import Placement
from ociruntime.runtime.cgroups.exec_cgroup import below, parse
from ociruntime.runtime.cgroups.hierarchies import Hierarchy

V1 = (
    Hierarchy(("cpu", "cpuacct"), "", "/cg/cpu", 1),
    Hierarchy(("memory",), "", "/cg/memory", 1),
    Hierarchy((), "systemd", "/cg/systemd", 1),
)
V2 = (Hierarchy(("cpu", "memory"), "", "/cg", 2),)


def places(hierarchies: tuple[Hierarchy, ...], *wanted: str) -> list[str]:
    cgroup = Cgroup("/c1", [Placement(each, "/c1") for each in hierarchies])
    return [each.directory for each in below(cgroup, wanted).placements]


def test_everywhere() -> None:
    inside = ["/cg/cpu/c1/a/b", "/cg/memory/c1/a/b", "/cg/systemd/c1/a/b"]
    assert places(V1, "/a//./b/") == inside
    assert places(V2, "a") == ["/cg/c1/a"]
    assert places(V2, "/") == ["/cg/c1"]


def test_by_controller() -> None:
    found = places(V1, "cpu,memory:x", "name=systemd:y")
    assert found == ["/cg/cpu/c1/x", "/cg/memory/c1/x", "/cg/systemd/c1/y"]
    assert places(V1, "memory:x")[0] == "/cg/cpu/c1"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (("..",), "must stay below"),
        (("a/../../c2",), "must stay below"),
        (("cpu:a:b",), "one colon"),
        (("a", "b"), "needs a controller"),
        ((":a",), "controller is empty"),
        (("cpu,:a",), "controller is empty"),
        (("cpu:a", "cpu:b"), "given twice"),
    ],
)
def test_refused(wanted: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse(wanted)


def test_hierarchies_must_fit() -> None:
    with pytest.raises(UsageError, match="hierarchy"):
        places(V1, "cpu:a", "cpuacct:b")
    with pytest.raises(UsageError, match='the controller "memory"'):
        places(V2, "memory:a")
