"""Find and remove what a runtime leaves behind on the host after a case."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from conformance import cgroups, children, isolation, mounts

RUN = Path("/run")
RESCTRL = Path("/sys/fs/resctrl")


@dataclass(frozen=True)
class Snapshot:
    """The host's state at one moment; ``mounts`` are (mount id, description)."""

    processes: frozenset[int]
    cgroups: frozenset[Path]
    mounts: frozenset[tuple[int, str]]
    interfaces: frozenset[str]
    entries: frozenset[Path]


def snapshot(state_root: Path, token: str) -> Snapshot:
    """Return the current state.

    Mounts and interfaces are those of this process's namespaces, processes its descendants.
    Cgroups and files are those with ``token`` in their name, which is part of each container's id,
    and those in ``state_root``.
    """
    return Snapshot(
        frozenset(children.descendants()),
        frozenset(cgroups.named(token)),
        frozenset((one.id, f"{one.fstype} on {one.point}") for one in mounts.of()),
        # /sys/class/net would show the namespace in which /sys was mounted.
        frozenset(name for _, name in socket.if_nameindex()),
        frozenset(_entries(state_root, token)),
    )


def _entries(state_root: Path, token: str) -> set[Path]:
    found: set[Path] = set()
    if state_root.is_dir():
        found |= {path for path in state_root.iterdir() if not path.name.startswith(".")}
    for directory in (RUN, RUN / "user" / str(os.geteuid()), RESCTRL):
        try:
            found |= {path for path in directory.iterdir() if token in path.name}
        except OSError:
            continue
    return found


def difference(before: Snapshot, after: Snapshot) -> list[str]:
    """Return a line for each thing that is new, and for missing mounts and interfaces."""
    new = after.processes - before.processes
    found = [f"process {children.describe(pid)}" for pid in new]
    found += [f"cgroup {path}" for path in after.cgroups - before.cgroups]
    found += [f"mount {name}" for _, name in after.mounts - before.mounts]
    found += [f"missing mount {name}" for _, name in before.mounts - after.mounts]
    found += [f"network device {name}" for name in after.interfaces - before.interfaces]
    found += [f"missing device {name}" for name in before.interfaces - after.interfaces]
    found += [f"entry {path}" for path in after.entries - before.entries]
    return sorted(found)


def settled_difference(
    before: Snapshot, state_root: Path, token: str, seconds: float = 3
) -> list[str]:
    """Return the difference that remains after ``seconds``; exiting processes take a moment."""
    deadline = time.monotonic() + seconds
    while True:
        found = difference(before, snapshot(state_root, token))
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def clear(before: Snapshot, state_root: Path, token: str) -> None:
    """Remove by force what is new since ``before``: processes, mounts, cgroups, files."""
    for _ in range(20):
        extra = children.descendants() - before.processes
        for directory in cgroups.named(token) - before.cgroups:
            _thaw(directory)
            extra |= cgroups.processes(directory)
        _end(extra - {os.getpid()})
        if not extra:
            break
        time.sleep(0.05)
    known = {id for id, _ in before.mounts}
    for one in reversed(mounts.of()):
        if one.id not in known:
            try:
                isolation.unmount(one.point)
            except OSError:
                continue
    cgroups.remove(cgroups.named(token) - before.cgroups)
    _remove(_entries(state_root, token) - before.entries)


def clear_named(state_root: Path, token: str) -> None:
    """Remove by force the cgroups (with processes) and files with ``token`` in their name.

    For a case whose own cleanup did not run.
    """
    for _ in range(20):
        directories = cgroups.named(token)
        found: set[int] = set()
        for directory in directories:
            _thaw(directory)
            found |= cgroups.processes(directory)
        if not found:
            break
        _end(found)
        time.sleep(0.05)
    cgroups.remove(cgroups.named(token))
    _remove(_entries(state_root, token))


def _end(pids: set[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _remove(paths: set[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _thaw(directory: Path) -> None:
    """Thaw a cgroup, which a killed ``pause`` may have left frozen."""
    try:
        cgroups.thaw(directory)
    except OSError:
        return
