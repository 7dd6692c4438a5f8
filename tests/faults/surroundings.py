"""What a command may leave on the host: take snapshots, compare them, and remove what is new."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.support import cgroupfs, isolation, leaks, processes

VANISH_SECONDS = 5.0


@dataclass(frozen=True)
class Surroundings:
    """A snapshot of everything that a container or pod may leave behind."""

    processes: frozenset[int]
    mounts: frozenset[tuple[str, str]]
    cgroups: frozenset[str]
    files: frozenset[str]
    devices: frozenset[str]
    rules: frozenset[str]


Look = Callable[[], Surroundings]


def look(cgroups: Iterable[Path], files: Iterable[str], rules: Iterable[str] = ()) -> Surroundings:
    """Take a snapshot of the host; of cgroups, files and firewall rules, only the given ones count.

    The files in /run always count.
    """
    return Surroundings(
        frozenset(processes.descendants()),
        frozenset(leaks.mount_table().items()),
        frozenset(str(place) for place in cgroups),
        frozenset(
            {str(path) for path in Path("/run").rglob("*")} - {leaks.CRIU_NOTES} | set(files)
        ),
        frozenset(name for _, name in socket.if_nameindex()),
        frozenset(rules),
    )


def new(before: Surroundings, after: Surroundings) -> list[str]:
    """Return a line for each thing that is new, and for each mount that is missing."""
    found = [f"process {processes.describe(p)}" for p in after.processes - before.processes]
    found += [f"mount {place}" for _, place in after.mounts - before.mounts]
    found += [f"lost mount {place}" for _, place in before.mounts - after.mounts]
    found += [f"cgroup {place}" for place in after.cgroups - before.cgroups]
    found += [f"file {path}" for path in after.files - before.files]
    found += [f"network device {name}" for name in after.devices - before.devices]
    found += [f"firewall rule {rule}" for rule in after.rules - before.rules]
    return sorted(found)


def left(look: Look, before: Surroundings) -> list[str]:
    """Return what is new, once exiting processes have had time to exit."""
    return settled(lambda: new(before, look()))


def settled(problems: Callable[[], list[str]]) -> list[str]:
    """Return what is wrong, after some time to settle."""
    found: list[str] = []

    def nothing() -> bool:
        processes.reap_orphans()
        found[:] = problems()
        return not found

    processes.until(nothing, VANISH_SECONDS)
    return found


def clear(look: Look, before: Surroundings) -> None:
    """Remove by force what is new, so that the next run starts clean."""
    after = look()
    for place in after.cgroups:
        for name, value in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
            if (Path(place) / name).exists():
                (Path(place) / name).write_text(value)
    processes.end(set(after.processes - before.processes))
    processes.reap_orphans()
    for _, target in sorted(after.mounts - before.mounts, reverse=True):
        isolation.unmount(target)
    cgroupfs.remove({Path(place) for place in look().cgroups - before.cgroups})
    for name in sorted(look().files - before.files, reverse=True):
        path = Path(name)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
