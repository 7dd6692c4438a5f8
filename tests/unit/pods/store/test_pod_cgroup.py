"""Limits of a whole pod, written to fake cgroup directories."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import HostError
from ociruntime.pods.manifest import oci_resources
from ociruntime.pods.store import pod_cgroup

WANTED: list[dict[str, Any]] = [
    {"name": "resource/memory", "value": {"limit": "64M"}},
    {"name": "resource/cpu", "value": {"limit": "500m"}},
    {"name": "os/linux/cpu-shares", "value": 512},
    {"name": "resource/pids", "value": {"limit": "9"}},
]


def apply(name: str = "pod") -> None:
    made = oci_resources.resources(WANTED)
    pod_cgroup.limit(name, oci_resources.divided(made), oci_resources.unified(made))


def written(directory: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in directory.iterdir() if file.read_text()}


def has(monkeypatch: pytest.MonkeyPatch, found: dict[Path, list[str] | None]) -> None:
    known = {str(place): controllers for place, controllers in found.items()}
    monkeypatch.setattr(pod_cgroup, "_controllers", lambda: known)


def group(place: Path, *files: str) -> Path:
    (place / "pod").mkdir(parents=True)
    for file in files:
        (place / "pod" / file).touch()
    return place


def test_divided_hierarchies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each controller has a separate directory; the unified one next to them has none."""
    names = ("cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.shares")
    cpu = group(tmp_path / "cpu", *names)
    memory = group(tmp_path / "memory", "memory.use_hierarchy", "memory.limit_in_bytes")
    pids = group(tmp_path / "pids", "pids.max")
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified" / "cgroup.controllers").touch()
    mounts: dict[Path, list[str] | None] = {
        cpu: ["rw", "cpu", "cpuacct"],
        memory: ["rw", "memory"],
        pids: ["rw", "pids"],
        tmp_path / "freezer": ["rw", "freezer"],
        tmp_path / "unified": None,
    }
    has(monkeypatch, mounts)
    apply()
    assert written(cpu / "pod") == {
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "50000",
        "cpu.shares": "512",
    }
    assert written(memory / "pod") == {
        "memory.use_hierarchy": "1",
        "memory.limit_in_bytes": str(64 << 20),
    }
    assert written(pids / "pod") == {"pids.max": "9"}
    assert [file.name for file in (tmp_path / "unified").iterdir()] == ["cgroup.controllers"]


def test_the_unified_hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = group(tmp_path, "memory.max", "cpu.max", "cpu.weight", "pids.max")
    (place / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (place / "cgroup.subtree_control").touch()
    has(monkeypatch, {place: None})
    apply()
    assert (place / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert written(place / "pod") == {
        "memory.max": str(64 << 20),
        "cpu.max": "50000 100000",
        "cpu.weight": "59",
        "pids.max": "9",
    }


def test_a_limit_that_the_kernel_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, {tmp_path: ["memory"]})
    path = f"{tmp_path}/pod/memory.use_hierarchy"
    with pytest.raises(HostError, match=f'write "1" to "{path}": no'):
        apply()
    has(monkeypatch, {tmp_path / "not": ["pids"]})
    with pytest.raises(HostError, match="pod's cgroup"):
        apply()


def test_deeply_nested(tmp_path: Path) -> None:
    """An app may nest its cgroups deeper than Python recurses."""
    place = str(tmp_path / "pod")
    os.mkdir(place)
    made = [place]
    for _ in range(1500):
        place += "/d"
        os.mkdir(place)
        made.append(place)
    try:
        assert pod_cgroup.processes([made[0]]) == []
        assert pod_cgroup.remove([made[0]]) == []
        assert not os.path.exists(made[0])
    finally:
        for path in reversed(made):  # pytest cannot remove them
            if os.path.exists(path):
                os.rmdir(path)
