"""The host's cgroup hierarchies, a process's cgroups, and limits in either version."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support import isolation


@cache
def hierarchies() -> dict[str, Path]:
    """Return {controller: mount point}; ``""`` is the v2 hierarchy, ``name=X`` a named v1 one."""
    found: dict[str, Path] = {}
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            fields, _, tail = line.partition(" - ")
            fstype, _, options = tail.split(" ", 2)
            target = Path(fields.split(" ")[4])
            if fstype == "cgroup2":
                found.setdefault("", target)
            elif fstype == "cgroup":
                for option in options.strip().split(","):
                    if option not in {"rw", "ro", "xattr", "clone_children"}:
                        found.setdefault(option, target)
    return found


def is_v2() -> bool:
    """Return whether the memory controller is on the v2 hierarchy."""
    return "memory" not in hierarchies()


@contextlib.contextmanager
def hugetlb_as_v1() -> Iterator[None]:
    """Mount the controller that crun requires on v1 on a hybrid host.

    Raises OSError if the controller is in use on v2.
    """
    with contextlib.ExitStack() as stack:
        if not is_v2() and not usual_place("hugetlb").is_mount():
            stack.enter_context(_mounted("hugetlb"))
        yield


@contextlib.contextmanager
def unmounted_as_mounted() -> Iterator[None]:
    """Mount the v1 hierarchies that the kernel has but nobody has mounted where engines look.

    A hierarchy with cgroups outlives its last mount.  Then ``docker stats`` and ``ctr task
    metrics`` show nothing, with any runtime, and CRIU finds other hierarchies than it has recorded.
    Call this in a private mount namespace.
    """
    found = _unmounted()
    if found:
        isolation.own_cgroup_root()
    with contextlib.ExitStack() as stack:
        for names in found:
            stack.enter_context(_mounted(names))
        yield


def usual_place(names: str) -> Path:
    """Return the directory on which systems usually mount this v1 hierarchy."""
    return Path("/sys/fs/cgroup") / names.removeprefix("name=")


@contextlib.contextmanager
def _mounted(names: str) -> Iterator[None]:
    place = usual_place(names)
    place.mkdir(exist_ok=True)
    try:
        isolation.mount("cgroup", str(place), "cgroup", data=names)
    except OSError:
        place.rmdir()
        raise
    hierarchies.cache_clear()
    try:
        yield
    finally:
        isolation.unmount(str(place))
        hierarchies.cache_clear()
        # It may still be mounted in the namespace of a runtime.
        with contextlib.suppress(OSError):
            place.rmdir()


def _unmounted() -> list[str]:
    hierarchies.cache_clear()
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    names = [line.split(":")[1] for line in lines]
    return [each for each in names if each.split(",")[0] not in hierarchies()]


def has(controller: str) -> bool:
    """Return whether the kernel offers the controller, in either version."""
    unified = hierarchies().get("")
    offered = (unified / "cgroup.controllers").read_text().split() if unified else []
    return controller in hierarchies() or controller in offered


def of_process(pid: int | str = "self") -> dict[str, Path]:
    """Return the process's cgroups as {controller: directory}, with ``""`` for v2."""
    places: dict[str, Path] = {}
    with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
        for line in file:
            _, names, path = line.rstrip("\n").split(":", 2)
            for name in names.split(","):
                mountpoint = hierarchies().get(name)
                if mountpoint is not None:
                    places[name] = mountpoint / path.lstrip("/")
    return places


def directory(pid: int, controller: str) -> Path:
    """Return the cgroup directory with that controller's limits of the process."""
    return of_process(pid)["" if is_v2() else controller]


def setting(pid: int, controller: str, v1: str, v2: str) -> str:
    """Return the content of a control file, named per version, without the line feed."""
    return (directory(pid, controller) / (v2 if is_v2() else v1)).read_text().strip()


def named(tag: str) -> set[Path]:
    """Return every cgroup directory whose path contains the tag."""
    found: set[Path] = set()
    pending = [str(mountpoint) for mountpoint in set(hierarchies().values())]
    while pending:  # os.walk recurses, and another test may have nested cgroups a thousand deep
        try:
            with os.scandir(pending.pop()) as entries:
                below = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue  # removed meanwhile
        pending += below
        found.update(Path(path) for path in below if tag in path)
    return found


def remove(directories: set[Path]) -> None:
    """Remove cgroups, deepest first, as far as possible."""
    for place in sorted(directories, key=lambda path: len(path.parts), reverse=True):
        try:
            place.rmdir()
        except OSError:
            pass


def let_go_of_unmounted() -> bool:
    """Return whether the kernel has removed the v1 hierarchies that are no longer mounted.

    A hierarchy that still had dying cgroups when it was unmounted stays until it is mounted and
    unmounted again, and then vanishes some time later.
    """
    unmounted = _unmounted()
    for each in unmounted:
        with tempfile.TemporaryDirectory() as place:
            isolation.mount("cgroup", place, "cgroup", data=each)
            isolation.unmount(place)
    return not unmounted
