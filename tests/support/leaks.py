"""Detect what a test leaves behind: processes, mounts, cgroups, state, files in /run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.support import cgroupfs, isolation, processes


def mount_table() -> dict[str, str]:
    """Return {mount id: mount point} of this namespace."""
    table: dict[str, str] = {}
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            fields = line.split(" ")
            table[fields[0]] = fields[4].encode().decode("unicode_escape")
    return table


def _tree(top: Path) -> frozenset[str]:
    found: set[str] = set()
    for place, directories, files in os.walk(top):
        found.update(os.path.join(place, name) for name in directories + files)
    return frozenset(found)


def entries(state_root: Path) -> frozenset[str]:
    """Return the containers in a state root; names with a leading dot are the runtime's own."""
    if not state_root.is_dir():
        return frozenset()
    return frozenset(str(entry) for entry in state_root.iterdir() if entry.name[0] != ".")


@dataclass(frozen=True)
class Snapshot:
    """The state of the host at one moment."""

    processes: frozenset[int]
    mounts: dict[str, str]
    cgroups: frozenset[Path]
    run: frozenset[str]
    state: frozenset[str]


def snapshot(state_root: Path, tag: str) -> Snapshot:
    """Return the current state; cgroups are those with the session's tag in their path."""
    return Snapshot(
        frozenset(processes.descendants()),
        mount_table(),
        frozenset(cgroupfs.named(tag)),
        _tree(Path("/run")),
        entries(state_root),
    )


def difference(before: Snapshot, after: Snapshot) -> list[str]:
    """Return a line for each thing that is new."""
    found = [f"process {processes.describe(pid)}" for pid in after.processes - before.processes]
    found += [f"mount {after.mounts[key]}" for key in after.mounts.keys() - before.mounts.keys()]
    found += [f"lost mount {before.mounts[k]}" for k in before.mounts.keys() - after.mounts.keys()]
    found += [f"cgroup {place}" for place in after.cgroups - before.cgroups]
    found += [f"state {name}" for name in after.state - before.state]
    found += [f"file {name}" for name in after.run - before.run if not _may_stay(name)]
    return sorted(found)


# What CRIU notes about the kernel, for itself: `features` asks it whether it works here.
CRIU_NOTES = "/run/criu.kdat"
POD_ROOTS = "/run/ocipod"


def _may_stay(name: str) -> bool:
    return name == CRIU_NOTES or _is_state_root(name)


def _is_state_root(name: str) -> bool:
    """An empty default state root may stay, as may the runtime's own dotted names in it.

    So may that of pods, in which each runtime has one.
    """
    path = Path(name)
    dotted = any(part.startswith(".") for part in path.parts)
    roots = [path / one for one in os.listdir(path)] if name == POD_ROOTS else [path]
    return dotted or all(_is_empty(root) for root in roots)


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(name[0] != "." for name in os.listdir(path))


def clear(before: Snapshot, state_root: Path, tag: str) -> None:
    """Remove by force what is new, so that the next test starts clean."""
    for _ in range(3):
        extra = processes.descendants() - before.processes
        if not extra:
            break
        _thaw(tag)
        processes.end(set(extra))
        processes.reap_orphans()
    after = snapshot(state_root, tag)
    for key in sorted(after.mounts.keys() - before.mounts.keys(), key=int, reverse=True):
        try:
            isolation.unmount(after.mounts[key])
        except OSError:
            pass
    cgroupfs.remove(set(after.cgroups - before.cgroups))
    for name in sorted((after.state | after.run) - (before.state | before.run), reverse=True):
        _remove(Path(name))


def _thaw(tag: str) -> None:
    for place in cgroupfs.named(tag):
        for name, value in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
            if (place / name).exists():
                (place / name).write_text(value)


def _remove(path: Path) -> None:
    import shutil

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
