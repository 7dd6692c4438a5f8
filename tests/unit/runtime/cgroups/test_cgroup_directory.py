"""Creation and removal of a cgroup directory, where the kernel refuses a step."""

from __future__ import annotations

import errno
import os
import posix
from pathlib import Path

import pytest

from ociruntime.base.errors import ConfigError, HostError
from ociruntime.runtime.cgroups import cgroup_directory
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.cgroup_directory import Placement, remove_all
from ociruntime.runtime.cgroups.hierarchies import Hierarchy, Layout


def os_error(number: int, path: str = "") -> OSError:
    return OSError(number, os.strerror(number), path)


class Subtree:
    """The files cgroup.subtree_control of a v2 hierarchy; refuses the given controllers."""

    def __init__(self, top: Path, **refusals: int) -> None:
        self.refusals = refusals
        self.written: list[tuple[str, str]] = []
        self.top = top

    def write(self, path: str, value: str) -> None:
        for name in value.replace("+", "").split():
            if name in self.refusals:
                raise os_error(self.refusals[name], path)
        self.written.append((os.path.relpath(path, self.top).partition("cgroup.")[0], value))


@pytest.fixture
def v2(tmp_path: Path) -> Placement:
    """A cgroup pods/c1 on a v2 host with three controllers, of which the top enables one."""
    hierarchy = Hierarchy(("cpu", "memory", "pids"), "", str(tmp_path), 2)
    (tmp_path / "pods").mkdir()
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    (tmp_path / "pods/cgroup.subtree_control").write_text("\n")
    return Placement(hierarchy, "/pods/c1")


def enable(
    placement: Placement, monkeypatch: pytest.MonkeyPatch, **refusals: int
) -> tuple[dict[str, HostError], list[tuple[str, str]]]:
    subtree = Subtree(Path(placement.hierarchy.mountpoint), **refusals)
    monkeypatch.setattr(cgroup_directory, "write", subtree.write)
    return placement.enable_controllers(), subtree.written


def test_controllers(v2: Placement, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ancestor enables what it has not enabled yet; the container's own cgroup does not."""
    refused, written = enable(v2, monkeypatch)
    assert refused == {}
    assert written == [("", "+memory +pids"), ("pods/", "+cpu +memory +pids")]


def test_one_controller_is_refused(v2: Placement, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are enabled one by one, and the refused one is not tried again below."""
    refused, written = enable(v2, monkeypatch, memory=errno.ENOENT)
    assert list(refused) == ["memory"]
    assert "in the parent" in refused["memory"].hint
    assert written == [("", "+pids"), ("pods/", "+cpu +pids")]


@pytest.mark.parametrize(
    ("number", "hint"),
    [(errno.EBUSY, "no internal processes"), (errno.EOPNOTSUPP, "threaded")],
)
def test_no_controller_can_be_enabled(
    v2: Placement, monkeypatch: pytest.MonkeyPatch, number: int, hint: str
) -> None:
    """Single controllers are not tried: that could make the cgroup threaded."""
    refused, written = enable(v2, monkeypatch, pids=number)
    assert written == []
    assert list(refused) == ["memory", "pids"]
    assert all(hint in error.hint for error in refused.values())


@pytest.mark.parametrize(
    ("number", "hint"), [(errno.EACCES, "Delegate="), (errno.EPERM, "Delegate="), (errno.EIO, "")]
)
def test_refusal_has_a_remedy(
    v2: Placement, monkeypatch: pytest.MonkeyPatch, number: int, hint: str
) -> None:
    refused, _ = enable(v2, monkeypatch, cpu=number)
    assert refused["cpu"].errno == number
    assert hint in refused["cpu"].hint
    assert bool(refused["cpu"].hint) is bool(hint)


def test_unreadable_controllers(v2: Placement, tmp_path: Path) -> None:
    (tmp_path / "pods/cgroup.subtree_control").unlink()
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids")
    with pytest.raises(HostError, match=r'read ".*/pods/cgroup\.subtree_control"'):
        v2.enable_controllers()


def cgroup_of(v2: Placement) -> Cgroup:
    return Cgroup.plan(Layout("v2", (v2.hierarchy,)), "/pods/c1", "c1")


@pytest.mark.parametrize("kind", ["domain\n", "domain invalid\n", None])
def test_needed_controller(
    v2: Placement, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str | None
) -> None:
    """A refused controller matters if a limit needs it, or if the cgroup cannot take processes."""
    subtree = Subtree(tmp_path, memory=errno.EOPNOTSUPP)
    monkeypatch.setattr(cgroup_directory, "write", subtree.write)
    needs = cgroup_of(v2)
    with pytest.raises(ConfigError, match='controller "memory"') as caught:
        needs.create({"memory": {"limit": 1 << 20}})
    assert caught.value.where == "linux.resources.memory.limit"
    assert "threaded" in caught.value.hint
    assert not (tmp_path / "pods/c1").exists()

    (tmp_path / "pods/c1").mkdir()
    if kind is not None:
        (tmp_path / "pods/c1/cgroup.type").write_text(kind)
    assert v2.is_invalid() is (kind == "domain invalid\n")


def test_threaded_parent(v2: Placement, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cgroup without a limit that cannot take processes is removed again."""
    subtree = Subtree(tmp_path, memory=errno.EOPNOTSUPP)
    monkeypatch.setattr(cgroup_directory, "write", subtree.write)
    monkeypatch.setattr(Placement, "is_invalid", lambda self: True)
    with pytest.raises(ConfigError, match="/pods/c1") as caught:
        cgroup_of(v2).create({})
    assert caught.value.where == "linux.cgroupsPath"
    assert not (tmp_path / "pods/c1").exists()


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.EAGAIN, "cgroup.max.d"),
        (errno.ENOSPC, "more cgroups"),
        (errno.EROFS, "--rootless=true"),
        (errno.EIO, ""),
    ],
)
def test_refused_directory(
    v2: Placement, monkeypatch: pytest.MonkeyPatch, number: int, hint: str
) -> None:
    def refuse(path: str, *_: object) -> None:
        raise os_error(number, path)

    monkeypatch.setattr(posix, "mkdir", refuse)
    with pytest.raises(HostError, match=r"^linux\.cgroupsPath: create cgroup .*/pods/c1") as caught:
        v2.make("linux.cgroupsPath")
    assert hint in caught.value.hint
    assert bool(caught.value.hint) is bool(hint)


def test_parent_that_keeps_vanishing(v2: Placement, monkeypatch: pytest.MonkeyPatch) -> None:
    """Creation ends with an error after some attempts, not never."""
    attempts = []

    def refuse(path: str, *_: object) -> None:
        attempts.append(path)
        raise os_error(errno.ENOENT, path)

    monkeypatch.setattr(posix, "mkdir", refuse)
    with pytest.raises(HostError, match=r"/pods/c1.*no such file"):
        v2.make("")
    assert len(attempts) == cgroup_directory._CREATION_ATTEMPTS


def test_control_file_in_place_of_a_cgroup(v2: Placement, tmp_path: Path) -> None:
    (tmp_path / "pods/c1").touch()
    with pytest.raises(ConfigError, match="control file"):
        v2.make("linux.cgroupsPath")


def test_unreadable_cgroup(v2: Placement, tmp_path: Path) -> None:
    (tmp_path / "pods/c1").mkdir()
    with pytest.raises(HostError, match=r'inspect cgroup ".*/pods/c1": no such file'):
        v2.make("linux.cgroupsPath")


def test_unreadable_cpuset(tmp_path: Path) -> None:
    placement = Placement(Hierarchy(("cpuset",), "", str(tmp_path), 1), "/c1")
    with pytest.raises(HostError, match=r'cpuset .*"/.*/c1": no such file'):
        placement.inherit_cpuset()


@pytest.mark.parametrize("refused", ["c1", "c1/inner", "pods"])
def test_refused_removal(
    v2: Placement, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refused: str
) -> None:
    """An errno other than EBUSY does not go away by waiting."""
    parent = tmp_path / "pods"
    path = str(parent if refused == "pods" else parent / refused)
    (parent / "c1/inner").mkdir(parents=True)
    rmdir = posix.rmdir

    def refuse(directory: str) -> None:
        if directory == path:
            raise os_error(errno.EPERM, directory)
        rmdir(directory)

    monkeypatch.setattr(posix, "rmdir", refuse)
    v2.existing = 0
    with pytest.raises(HostError, match=f'remove cgroup "{path}": operation not permitted'):
        remove_all([v2])
    assert os.path.isdir(path)
