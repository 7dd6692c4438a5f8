"""The engines' requirements of the machine: programs, a parent cgroup, a filesystem."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.engines.daemon import PATH
from tests.support import cgroupfs, isolation, leaks


def program(name: str, package: str = "") -> str:
    """Return the absolute path of an installed program; skip the test if it is missing."""
    # The distribution's place first: what it packs together was made for each other.
    found = shutil.which(name, path=f"/usr/bin:/usr/sbin:{PATH}")
    if found is None:
        pytest.skip(f"{package or name} is not installed (./dev test installs it)")
    return found


@contextmanager
def parent_cgroup(name: str) -> Iterator[str]:
    """Create a cgroup of that name in every hierarchy, for the engines' own; return its path."""
    mountpoints = set(cgroupfs.hierarchies().values())
    # podman has one for all its conmons and keeps it.
    for place in [place / part for place in mountpoints for part in (name, f"{name}/conmon")]:
        place.mkdir()
        for setting in ("cpuset.cpus", "cpuset.mems"):
            # On v1 a new cpuset is empty, and no process may enter it.
            if (place / setting).exists() and not cgroupfs.is_v2():
                (place / setting).write_text((place.parent / setting).read_text())
    try:
        yield f"/{name}"
    finally:
        cgroupfs.remove(cgroupfs.named(name))


def no_plain_directory_among_hierarchies() -> None:
    """Skip if another mount namespace has a hierarchy that this one lacks.

    Podman relies on the directories' names, and would write plain files into the tmpfs there.
    """
    mountpoints = set(cgroupfs.hierarchies().values())
    for top in {mountpoint.parent for mountpoint in mountpoints} - {Path("/sys/fs")}:
        for place in top.iterdir():
            if place.is_dir() and not place.is_symlink() and place not in mountpoints:
                pytest.skip(f"{place} is no cgroup hierarchy here, and podman takes it for one")


def unmount_below(directory: Path) -> None:
    """Unmount what a daemon has left mounted."""
    for target in sorted(leaks.mount_table().values(), reverse=True):
        if target.startswith(f"{directory}/"):
            isolation.unmount(target)


def has_overlay(scratch: Path) -> bool:
    """Return whether overlayfs accepts ``scratch`` for its layers (it may itself be an overlay)."""
    parts = {name: scratch / name for name in ("lower", "upper", "work", "merged")}
    for path in parts.values():
        path.mkdir(parents=True)
    data = f"lowerdir={parts['lower']},upperdir={parts['upper']},workdir={parts['work']}"
    try:
        isolation.mount("overlay", str(parts["merged"]), "overlay", data=data)
    except OSError:
        return False
    else:
        isolation.unmount(str(parts["merged"]))
        return True
    finally:
        shutil.rmtree(scratch)


@contextmanager
def covered(path: str) -> Iterator[Path]:
    """Mount an empty directory on the path, in the session's own mount namespace."""
    Path(path).mkdir(exist_ok=True)
    isolation.mount("none", path, "tmpfs", data="mode=755")
    try:
        yield Path(path)
    finally:
        isolation.unmount(path)
