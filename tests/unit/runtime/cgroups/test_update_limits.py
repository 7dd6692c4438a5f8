"""All limits of an update are written, or none."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import ConfigError, ContainerError, HostError, RuntimeFailure
from ociruntime.runtime.cgroups import control_files
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.cgroup_directory import Placement
from ociruntime.runtime.cgroups.hierarchies import Hierarchy
from ociruntime.runtime.cgroups.shared_settings import Setting
from ociruntime.runtime.cgroups.update_limits import Update, previous, restoring

FILES = {
    "cpu.weight": "100\n",
    "cpu.max": "max 100000\n",
    "pids.max": "50\n",
    "memory.max": "4096\n",
    "memory.swap.max": "max\n",
    "memory.current": "2048\n",
    "io.max": "8:0 rbps=1 wbps=max riops=max wiops=max\n",
}


class Told(Cgroup):
    """A cgroup that another process watches."""

    __slots__ = ("heard",)
    heard: list[list[str]]

    def set_unit_properties(self, settings: Sequence[Setting]) -> None:
        self.heard.append([f"{each.files[0][0]}={each.files[0][1]}" for each in settings])


def write(path: str, value: str) -> None:
    """Write like the kernel: what was there is gone."""
    Path(path).write_text(value)


@pytest.fixture
def cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    monkeypatch.setattr(control_files, "write", write)
    directory = tmp_path / "c1"
    directory.mkdir()
    for name, content in FILES.items():
        (directory / name).write_text(content)
    hierarchy = Hierarchy(("cpu", "io", "memory", "pids"), "", str(tmp_path), 2)
    made = Told("/c1", [Placement(hierarchy, "/c1")])
    made.heard = []
    return made


def content(cgroup: Cgroup) -> dict[str, str]:
    directory = Path(cgroup.placements[0].directory)
    return {name: (directory / name).read_text().strip() for name in FILES}


BEFORE = {name: text.strip() for name, text in FILES.items()}


def test_written_and_told(cgroup: Told) -> None:
    Update(cgroup, {"pids": {"limit": 7}, "cpu": {"shares": 2}}, "r").write()
    assert content(cgroup) == {**BEFORE, "pids.max": "7", "cpu.weight": "1"}
    assert cgroup.heard == [["cpu.weight=1", "pids.max=7"]]


def test_undone(cgroup: Told) -> None:
    wanted = {"pids": {"limit": 7}, "memory": {"limit": 3000, "swap": 3000}}
    update = Update(cgroup, wanted, "r")
    update.write()
    assert content(cgroup) != BEFORE
    assert update.undo() == []
    assert content(cgroup) == BEFORE
    assert cgroup.heard[1] == ["memory.max=4096", "memory.swap.max=max", "pids.max=50"]


def test_refusal_undoes(cgroup: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, value: str) -> None:
        if path.endswith("memory.max") and value == "3000":
            raise OSError(16, os.strerror(16))
        write(path, value)

    monkeypatch.setattr(control_files, "write", refuse)
    resources: dict[str, Any] = {"pids": {"limit": 7}, "memory": {"limit": 3000}}
    with pytest.raises(HostError, match=r"r\.memory\.limit: write"):
        Update(cgroup, resources, "r").write()
    assert content(cgroup) == BEFORE


def test_what_cannot_be_put_back_is_told(cgroup: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, value: str) -> None:
        if path.endswith("memory.max") or value == "50":
            raise OSError(5, os.strerror(5))
        write(path, value)

    monkeypatch.setattr(control_files, "write", refuse)
    with pytest.raises(HostError, match=r"not restored: .*write \"50\" to .*pids\.max"):
        Update(cgroup, {"pids": {"limit": 7}, "memory": {"limit": 3000}}, "r").write()


def test_usage_is_looked_at_first(cgroup: Told) -> None:
    memory = {"limit": 2000, "checkBeforeUpdate": True}
    with pytest.raises(ConfigError, match="memory usage of 2048"):
        Update(cgroup, {"pids": {"limit": 7}, "memory": memory}, "r").write()
    assert content(cgroup) == BEFORE
    assert cgroup.heard == []


def test_without_a_cgroup() -> None:
    Update(Cgroup("", []), {}, "r").write()
    with pytest.raises(ContainerError, match="cgroup of its"):
        Update(Cgroup("", []), {"pids": {"limit": 7}}, "r")


@pytest.mark.parametrize(
    ("file", "there", "value", "back"),
    [
        ("pids.max", "max\n", "7", "max"),
        ("cpuset.cpus", "\n", "0", ""),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "1", "0"),
        ("io.max", "", "8:0 rbps=5", "8:0 rbps=max wbps=max riops=max wiops=max"),
        (
            "io.max",
            "7:0 rbps=1 wbps=max riops=max wiops=max\n8:0 rbps=2 wbps=max riops=max wiops=max\n",
            "8:0 rbps=5",
            "8:0 rbps=2 wbps=max riops=max wiops=max",
        ),
        ("io.weight", "default 100\n8:0 50\n", "70", "default 100"),
        ("io.weight", "default 100\n8:0 50\n", "default 70\n8:16 60", "default 100\n8:16 default"),
        ("blkio.throttle.read_bps_device", "", "8:0 5", "8:0 0"),
        ("blkio.bfq.weight_device", "default 100\n", "8:0 5", "8:0 default"),
        ("io.latency", "", "8:0 target=5000", "8:0 target=max"),
        ("io.latency", "8:0 target=70\n", "8:0 target=5000\n8:16 target=9",
         "8:0 target=70\n8:16 target=max"),
        ("rdma.max", "m0 hca_handle=1 hca_object=max\n", "m1 hca_handle=2",
         "m1 hca_handle=max hca_object=max"),
    ],
)  # fmt: skip
def test_the_way_back(file: str, there: str, value: str, back: str) -> None:
    assert restoring(file, there, value) == back


class Refusing(Told):
    """A cgroup whose systemd unit refuses to restore the previous limits."""

    __slots__ = ()

    def set_unit_properties(self, settings: Sequence[Setting]) -> None:
        super().set_unit_properties(settings)
        if len(self.heard) > 1:
            raise RuntimeFailure("systemd is gone")


def test_unit_that_is_not_restored(cgroup: Told) -> None:
    """The control files are restored all the same."""
    refusing = Refusing(cgroup.path, cgroup.placements)
    refusing.heard = []
    update = Update(refusing, {"pids": {"limit": 7}}, "r")
    update.write()
    assert update.undo() == ["systemd is gone"]
    assert content(cgroup) == BEFORE


def test_limit_without_a_previous_value(cgroup: Told, tmp_path: Path) -> None:
    """A file that this kernel does not have, or that cannot be read, has nothing to restore."""
    directory = Path(cgroup.placements[0].directory)
    setting = Setting(2, "pids", (("gone", "1"), ("pids.max", "7")), "r")
    found = previous(setting, str(directory))
    assert found is not None
    assert found.files == (("pids.max", "50"),)
    assert previous(Setting(2, "pids", (("gone", "1"),), "r"), str(directory)) is None
    (directory / "pids.max").unlink()
    (directory / "pids.max").mkdir()
    assert previous(setting, str(directory)) is None


def test_unreadable_usage(cgroup: Told) -> None:
    """Without the usage, nothing is written."""
    Path(cgroup.placements[0].directory, "memory.current").unlink()
    memory = {"limit": 2000, "checkBeforeUpdate": True}
    with pytest.raises(HostError, match=r'r\.memory.*: read ".*/memory\.current": no such file'):
        Update(cgroup, {"pids": {"limit": 7}, "memory": memory}, "r").write()
    assert cgroup.heard == []
