"""LNX-CGOWN: the files of a cgroup that the container's root becomes the owner of."""

from __future__ import annotations

import posix
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError
from ociruntime.runtime.cgroups import cgroup
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.hierarchies import Hierarchy, Layout


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Every change of owner, of files that exist."""
    calls: list[tuple[str, int, int]] = []

    def chown(path: str, uid: int, gid: int) -> None:
        posix.stat(path)
        calls.append((Path(path).name, uid, gid))

    monkeypatch.setattr(posix, "chown", chown)
    return calls


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "c1"
    directory.mkdir()
    for name in ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads", "memory.max"):
        (directory / name).touch()
    return directory


def test_the_kernels_list(
    directory: Path, tmp_path: Path, changed: list[tuple[str, int, int]]
) -> None:
    listing = tmp_path / "delegate"
    listing.write_text("cgroup.procs\ncgroup.threads\nmemory.reclaim\n")
    cgroup.hand_over(str(directory), 1000, 2000, str(listing))
    assert changed == [
        ("c1", 1000, 2000),
        ("cgroup.procs", 1000, 2000),
        ("cgroup.threads", 1000, 2000),
    ]


def test_without_a_list(
    directory: Path, tmp_path: Path, changed: list[tuple[str, int, int]]
) -> None:
    cgroup.hand_over(str(directory), 1, 2, str(tmp_path / "missing"))
    names = [name for name, _, _ in changed]
    assert names == ["c1", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"]


def test_failure(tmp_path: Path, changed: list[tuple[str, int, int]]) -> None:
    with pytest.raises(HostError, match=r"gone\" to 1:2"):
        cgroup.hand_over(str(tmp_path / "gone"), 1, 2)


@pytest.mark.parametrize(("versions", "count"), [((1, 2), 0), ((1,), 0), ((2,), 1)])
def test_only_where_all_is_v2(
    tmp_path: Path, changed: list[tuple[str, int, int]], versions: tuple[int, ...], count: int
) -> None:
    hierarchies = []
    for version in versions:
        (tmp_path / str(version) / "c1").mkdir(parents=True)
        hierarchies.append(Hierarchy((), "", str(tmp_path / str(version)), version))
    Cgroup.plan(Layout("", tuple(hierarchies)), None, "c1").hand_over(5, 6)
    assert len(changed) == count
