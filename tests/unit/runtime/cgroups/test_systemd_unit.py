from __future__ import annotations

import pytest

from ociruntime.base.errors import ConfigError
from ociruntime.runtime.cgroups.systemd_unit import (
    directory_name,
    escape,
    slice_directories,
    unit_of,
)


@pytest.mark.parametrize(
    ("given", "name", "parent", "path"),
    [
        (None, "ociruntime-c1.scope", "system.slice", "/system.slice/ociruntime-c1.scope"),
        ("", "ociruntime-c1.scope", "system.slice", "/system.slice/ociruntime-c1.scope"),
        (":a:b", "a-b.scope", "system.slice", "/system.slice/a-b.scope"),
        ("::b", "b.scope", "system.slice", "/system.slice/b.scope"),
        ("-.slice:a:b", "a-b.scope", "-.slice", "/a-b.scope"),
        (
            "machine.slice:libpod:0123",
            "libpod-0123.scope",
            "machine.slice",
            "/machine.slice/libpod-0123.scope",
        ),
        (
            "kubepods-burstable-pod1.slice:cri-containerd:9f",
            "cri-containerd-9f.scope",
            "kubepods-burstable-pod1.slice",
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice"
                "/cri-containerd-9f.scope"
            ),
        ),
        ("::b.slice", "b.slice", "-.slice", "/b.slice"),
        ("a.slice:x:a-b.slice", "a-b.slice", "a.slice", "/a.slice/a-b.slice"),
        ("::a-b-c.slice", "a-b-c.slice", "a-b.slice", "/a.slice/a-b.slice/a-b-c.slice"),
        ("::memory", "memory.scope", "system.slice", "/system.slice/_memory.scope"),
        (":a_b@c:d\\x2d", "a_b@c-d\\x2d.scope", "system.slice", "/system.slice/a_b@c-d\\x2d.scope"),
    ],
)
def test_units(given: str | None, name: str, parent: str, path: str) -> None:
    unit = unit_of(given, "c1")
    assert (unit.name, unit.slice, unit.path) == (name, parent, path)
    assert unit.is_scope == name.endswith(".scope")


def test_a_user_has_another_slice() -> None:
    assert unit_of(None, "c1", rootless=True).path == "/user.slice/ociruntime-c1.scope"
    assert unit_of(":a:b", "c1", rootless=True).path == "/user.slice/a-b.scope"
    assert unit_of("app.slice:a:b", "c1", rootless=True).path == "/app.slice/a-b.scope"


def test_an_id_that_no_unit_may_have() -> None:
    assert unit_of(None, "a+b").name == "ociruntime-a\\x2bb.scope"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("/a/b", '"/a/b"'),
        ("a:b", '"a:b"'),
        ("/a:b:c", '"/a:b:c"'),
        ("a:b:c:d", '"a:b:c:d"'),
        ("a:b:c", '"a" '),
        (".slice:b:c", '".slice" '),
        ("-a.slice:b:c", '"-a.slice" '),
        ("a-.slice:b:c", '"a-.slice" '),
        ("a--b.slice:b:c", '"a--b.slice" '),
        ("a/b.slice:b:c", "systemd unit name"),
        (":a b:c", "systemd unit name"),
        (":a:ä", "systemd unit name"),
        (":a:b\0", "systemd unit name"),
        (":a:", "empty unit name"),
        ("::-.slice", "root slice"),
        ("c.slice::a-b.slice", '"a-b.slice" is in "a.slice"'),
        (f":a:{'b' * 250}", "longer than 255 bytes"),
    ],
)
def test_refused(given: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        unit_of(given, "c1")
    assert caught.value.where == "linux.cgroupsPath"
    assert words in str(caught.value)


def test_what_a_refusal_accepts() -> None:
    with pytest.raises(ConfigError, match="SLICE:PREFIX:NAME"):
        unit_of("/a/b", "c1")


def test_slices() -> None:
    assert slice_directories("-.slice") == []
    assert slice_directories("a.slice") == ["a.slice"]
    assert slice_directories("a-b-c.slice") == ["a.slice", "a-b.slice", "a-b-c.slice"]


@pytest.mark.parametrize(
    ("unit", "directory"),
    [
        ("a.scope", "a.scope"),
        ("cpu.scope", "_cpu.scope"),
        ("cpus.scope", "cpus.scope"),
        ("cgroup.x.scope", "_cgroup.x.scope"),
        ("_a.scope", "__a.scope"),
        (".a.scope", "_.a.scope"),
        ("tasks", "_tasks"),
    ],
)
def test_directories_that_might_be_files(unit: str, directory: str) -> None:
    assert directory_name(unit) == directory


def test_escape() -> None:
    assert escape("a-b_c.d:e@f") == "a-b_c.d:e@f"
    assert escape("ä/") == "\\xc3\\xa4\\x2f"
