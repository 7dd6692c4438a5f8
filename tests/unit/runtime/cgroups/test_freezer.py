"""The freezers of cgroup v1 and v2, with ordinary files in place of the kernel's."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError
from ociruntime.runtime.cgroups import freezer
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.hierarchies import Hierarchy, Layout


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.freeze").write_text("0\n")
    (tmp_path / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    return tmp_path


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    (tmp_path / "freezer.state").write_text("THAWED\n")
    return tmp_path


def refuse(monkeypatch: pytest.MonkeyPatch, function: str, number: int) -> None:
    def fail(path: str, *_: str) -> str:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(freezer, function, fail)


@pytest.mark.parametrize(
    ("asked", "frozen", "expected"), [("0", "0", False), ("1", "0", True), ("0", "1", True)]
)
def test_state_v2(v2: Path, asked: str, frozen: str, expected: bool) -> None:
    """A cgroup is also frozen by its parent, and a freeze may still be under way."""
    (v2 / "cgroup.freeze").write_text(f"{asked}\n")
    (v2 / "cgroup.events").write_text(f"populated 1\nfrozen {frozen}\n")
    assert freezer.frozen(str(v2), 2) is expected


@pytest.mark.parametrize("state", ["FREEZING", "FROZEN", "THAWED"])
def test_state_v1(v1: Path, state: str) -> None:
    (v1 / "freezer.state").write_text(f"{state}\n")
    assert freezer.frozen(str(v1), 1) is (state != "THAWED")


@pytest.mark.parametrize("version", [1, 2])
def test_removed_cgroup(tmp_path: Path, version: int) -> None:
    """The last process has exited, and another command has removed the cgroup."""
    gone = f"{tmp_path}/gone"
    assert freezer.frozen(gone, version) is False
    freezer.thaw(gone, version)
    with pytest.raises(HostError, match=f'freeze cgroup "{gone}": no such file'):
        freezer.freeze(gone, version)


@pytest.mark.parametrize("version", [1, 2])
def test_unreadable_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: int) -> None:
    refuse(monkeypatch, "read", errno.EIO)
    with pytest.raises(HostError, match=f'cgroup "{tmp_path}": input/output'):
        freezer.frozen(str(tmp_path), version)


def test_refused_thaw(monkeypatch: pytest.MonkeyPatch, v2: Path) -> None:
    refuse(monkeypatch, "write", errno.EACCES)
    with pytest.raises(HostError, match=f'thaw cgroup "{v2}": permission denied'):
        freezer.thaw(str(v2), 2)


@pytest.mark.parametrize("version", [1, 2])
def test_a_process_that_cannot_be_frozen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: int
) -> None:
    """After the timeout, the processes that were frozen run again."""
    monkeypatch.setattr(freezer, "_FREEZE_TIMEOUT", 0.002)
    file, on, off = {1: ("freezer.state", "FROZEN", "THAWED"), 2: ("cgroup.freeze", "1", "0")}[
        version
    ]
    (tmp_path / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    (tmp_path / file).write_text(off)
    written = []

    def write(path: str, value: str) -> None:
        assert path == f"{tmp_path}/{file}"
        written.append(value)
        (tmp_path / file).write_text("FREEZING" if (value, version) == (on, 1) else value)

    monkeypatch.setattr(freezer, "write", write)
    with pytest.raises(HostError, match="timed out") as caught:
        freezer.freeze(str(tmp_path), version)
    assert "uninterruptible" in caught.value.hint
    assert set(written[:-1]) == {on}
    assert (written[-1], (tmp_path / file).read_text()) == (off, off)
    assert (len(written) > 2) is (version == 1), "a forked process can escape from v1's freezer"


def test_freeze_waits_for_all(monkeypatch: pytest.MonkeyPatch, v2: Path) -> None:
    """The kernel reports in cgroup.events that the last process has stopped."""
    looks = []

    def event(directory: str, name: str) -> int:
        looks.append(name)
        return len(looks) // 3

    monkeypatch.setattr(freezer, "event", event)
    freezer.freeze(str(v2), 2)
    assert looks == ["frozen"] * 3
    assert (v2 / "cgroup.freeze").read_text() == "1\n"
    freezer.thaw(str(v2), 2)
    assert (v2 / "cgroup.freeze").read_text() == "0\n"


@pytest.mark.parametrize(("version", "file"), [(1, "freezer.self_freezing"), (2, "cgroup.freeze")])
def test_frozen_above(tmp_path: Path, version: int, file: str) -> None:
    """The search ends at the root of the hierarchy, which has no such file."""
    below = tmp_path / "outer" / "inner" / "c1"
    below.mkdir(parents=True)
    for directory in (below, below.parent, below.parent.parent):
        (directory / file).write_text("0\n")
    (below / file).write_text("1\n")
    assert freezer.frozen_above(str(below), version) == ""
    (tmp_path / "outer" / file).write_text("1\n")
    assert freezer.frozen_above(str(below), version) == f"{tmp_path}/outer"


def test_event(tmp_path: Path) -> None:
    (tmp_path / "cgroup.events").write_text("populated 1\nfrozen 7\nodd x\n")
    values = [freezer.event(str(tmp_path), name) for name in ("frozen", "froze", "odd")]
    assert values == [7, 0, 0]


@pytest.fixture
def unified(v2: Path) -> Cgroup:
    """A container's cgroup on a v2 host."""
    (v2 / "c1").mkdir()
    for name in ("cgroup.freeze", "cgroup.events"):
        (v2 / name).rename(v2 / "c1" / name)
    cgroup = Cgroup.plan(Layout("v2", (Hierarchy((), "", str(v2), 2),)), None, "c1")
    cgroup.placements[0].existing = 0
    return cgroup


def test_killed_processes_of_a_frozen_v2_cgroup(unified: Cgroup) -> None:
    """SIGKILL ends them, frozen or not: nothing is thawed."""
    file = Path(unified.placements[0].directory, "cgroup.freeze")
    file.write_text("1\n")
    unified.let_die()
    assert file.read_text() == "1\n"
    file.parent.parent.joinpath("cgroup.freeze").write_text("1\n")
    assert unified.frozen_above(undying=True) == ""
    assert unified.frozen_above() == str(file.parent.parent)
    unified.thaw()
    assert file.read_text() == "0\n"


def test_no_freezer() -> None:
    """Without a cgroup, a container cannot be paused, and has nothing to thaw."""
    cgroup = Cgroup.plan(Layout("v1", ()), None, "c1")
    with pytest.raises(HostError, match=r'"/c1": .*no freezer'):
        cgroup.freeze()
    cgroup.thaw()
    cgroup.let_die()
    assert cgroup.frozen_above() == ""
    assert not cgroup.freezable
