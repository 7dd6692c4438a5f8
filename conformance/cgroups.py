"""The host's cgroup hierarchies, and the cgroups that a runtime has created in them."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from conformance import mounts


@dataclass(frozen=True)
class Hierarchy:
    """A mounted cgroup hierarchy; for v2, ``controllers`` are those available in its root."""

    point: Path
    version: int
    controllers: frozenset[str]


def hierarchies() -> list[Hierarchy]:
    """Return all hierarchies that are mounted at their root, each once."""
    found: dict[str, Hierarchy] = {}
    for one in mounts.of():
        if one.root != "/" or one.device in found:
            continue
        point = Path(one.point)
        if one.fstype == "cgroup2":
            offered = (point / "cgroup.controllers").read_text().split()
            found[one.device] = Hierarchy(point, 2, frozenset(offered))
        elif one.fstype == "cgroup":
            words = {word.removeprefix("name=") for word in one.super_options}
            found[one.device] = Hierarchy(point, 1, frozenset(words - {"rw", "ro", "xattr"}))
    return list(found.values())


def mode() -> str:
    """Return ``v1``, ``v2``, ``hybrid`` (both are mounted) or ``none``."""
    versions = {one.version for one in hierarchies()}
    if not versions:
        return "none"
    return "hybrid" if len(versions) == 2 else f"v{versions.pop()}"


def version_of(controller: str) -> int:
    """Return the cgroup version (1 or 2) that has the controller; 0 if none has."""
    return next((one.version for one in hierarchies() if controller in one.controllers), 0)


def has_file(controller: str, file: str, token: str) -> bool:
    """Return whether a new cgroup of the v1 controller has that file.

    Creates and removes a cgroup with ``token`` in its name.
    """
    for hierarchy in hierarchies():
        if hierarchy.version == 1 and controller in hierarchy.controllers:
            directory = hierarchy.point / f"{token}-look"
            directory.mkdir()
            try:
                return (directory / file).exists()
            finally:
                directory.rmdir()
    return False


def named(token: str) -> set[Path]:
    """Return the directories of all cgroups with ``token`` in their own name."""
    found: set[Path] = set()
    pending = [str(hierarchy.point) for hierarchy in hierarchies()]
    while pending:  # os.walk recurses, and others may have nested cgroups a thousand deep
        try:
            with os.scandir(pending.pop()) as entries:
                below = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue  # removed meanwhile
        pending += [entry.path for entry in below]
        found.update(Path(entry.path) for entry in below if token in entry.name)
    return found


def of(pid: int | str) -> dict[str, Path]:
    """Return the cgroups of a process as controller -> directory.

    The key is "" for v2, and the name for a named v1 hierarchy.
    """
    paths: dict[str, str] = {}
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            paths[name.removeprefix("name=")] = path.lstrip("/")
    found: dict[str, Path] = {}
    for hierarchy in hierarchies():
        if hierarchy.version == 2 and "" in paths:
            found[""] = hierarchy.point / paths[""]
        elif hierarchy.version == 1:
            found |= {n: hierarchy.point / paths[n] for n in hierarchy.controllers if n in paths}
    return found


def processes(directory: Path) -> set[int]:
    """Return the pids of a cgroup's processes; none if it does not exist."""
    try:
        return {int(line) for line in (directory / "cgroup.procs").read_text().split()}
    except OSError:
        return set()


def thaw(directory: Path) -> None:
    """Thaw a cgroup of either version, so that its processes can be killed."""
    for name, value in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
        if (directory / name).exists():
            (directory / name).write_text(value)


def remove(directories: set[Path]) -> None:
    """Remove cgroups, children first; retry for 2 seconds while they have exiting processes."""
    for directory in sorted(directories, key=lambda path: len(path.parts), reverse=True):
        for _ in range(100):
            try:
                directory.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.02)
