"""The host's control groups."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from conformance import mounts


@dataclass(frozen=True)
class Hierarchy:
    """A mounted one; ``controllers`` of v2: those its root offers."""

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
    """``v1``, ``hybrid`` (v1 with a v2 beside it), ``v2`` or ``none``."""
    versions = {one.version for one in hierarchies()}
    if not versions:
        return "none"
    return "hybrid" if len(versions) == 2 else f"v{versions.pop()}"


def version_of(controller: str) -> int:
    """1 or 2: in which kind of hierarchy the controller is; 0 if in none."""
    found = (one.version for one in hierarchies() if controller in one.controllers)
    return next(found, 0)


def has_file(controller: str, file: str, token: str) -> bool:
    """Return true if a new cgroup of the v1 controller has that file; create one to check."""
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
    """Return all cgroups with that text in their own name."""
    found = set()
    for hierarchy in hierarchies():
        for place, directories, _ in os.walk(hierarchy.point):
            found |= {Path(place, name) for name in directories if token in name}
    return found


def of(pid: int | str) -> dict[str, Path]:
    """Controller (``""`` for v2, a v1 hierarchy's name for a named one) -> directory."""
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
    """Members; an absent cgroup has none."""
    try:
        return {int(line) for line in (directory / "cgroup.procs").read_text().split()}
    except OSError:
        return set()


def thaw(directory: Path) -> None:
    """Thaw a cgroup, so that its processes can be killed."""
    for name, value in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
        if (directory / name).exists():
            (directory / name).write_text(value)


def remove(directories: set[Path]) -> None:
    """Children first; tries for a while, since ended members take a moment to leave."""
    for directory in sorted(directories, key=lambda path: len(path.parts), reverse=True):
        for _ in range(100):
            try:
                directory.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.02)
