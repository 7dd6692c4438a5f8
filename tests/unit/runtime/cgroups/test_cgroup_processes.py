"""The cgroups below a container's: it may nest them as deep as it likes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from ociruntime.runtime.cgroups.cgroup_processes import kill_each, tree
from tests.support.processes import ends_with_few_descriptors

DEPTH = 1500


def test_deeply_nested(tmp_path: Path) -> None:
    place = str(tmp_path / "top")
    os.mkdir(place)
    expected = [place]
    for _ in range(DEPTH):
        place += "/d"
        os.mkdir(place)
        expected.append(place)
    try:
        shown = [path for path in tree(expected[0]) if not path.startswith("/proc/self/fd/")]
        assert shown == [path for path in expected[::-1] if len(path) < 3500]  # children first
    finally:
        for path in reversed(expected):  # pytest cannot remove them
            os.rmdir(path)


def test_gone(tmp_path: Path) -> None:
    assert list(tree(str(tmp_path / "gone"))) == []


def test_longer_paths_than_the_kernel_takes(tmp_path: Path) -> None:
    """Each can be read and removed by what ``tree`` yields, and no descriptor is left."""
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for level in range(60):
        for name in ("a" * 250, "b" * 250):
            os.mkdir(name, dir_fd=here)
            os.close(os.open(f"{name}/cgroup.procs", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        below = os.open(("a" if level % 2 else "b") * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    before = os.listdir("/proc/self/fd")
    count = 0
    for path in tree(str(top)):
        if path != str(top):
            os.unlink(f"{path}/cgroup.procs")
        os.rmdir(path)
        count += 1
    assert count == 121
    assert not top.exists()
    assert os.listdir("/proc/self/fd") == before


def test_more_processes_than_descriptors(tmp_path: Path) -> None:
    """A container must not escape `delete` and `kill --all` by forking often enough."""

    def act(pids: list[int]) -> None:
        (tmp_path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
        kill_each([str(tmp_path)])

    assert ends_with_few_descriptors(act) == [-signal.SIGKILL] * 40
