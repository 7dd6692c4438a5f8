"""The kernel's counters of everything that containers use, on the whole machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.support import leaks
from tests.support.descriptors import open_descriptors

# Objects of these kinds per proc_slabinfo(5), by the name in which they are reported.
SLABS = {
    "network namespaces": "net_namespace",
    "pid namespaces": "pid_namespace",
    "credentials": "cred_jar",
    "mounts": "mnt_cache",
    "processes": "task_struct",
}
ENOUGH_LIVES = 1000  # that others' use of the machine is small against a leak
Reading = dict[str, int]


def _field(path: str, number: int) -> int:
    return int(Path(path).read_text().split()[number])


def _meminfo(name: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return 0


def _cgroups() -> int:
    """Return the number of cgroups, including dying ones, in all hierarchies."""
    places = [line.split() for line in Path("/proc/cgroups").read_text().splitlines()[1:]]
    return sum(count for _, count in {(fields[1], int(fields[2])) for fields in places})


def _keys() -> int:
    """Return the number of keys of uid 0, instantiated or not."""
    for line in Path("/proc/key-users").read_text().splitlines():
        user, _, rest = line.partition(":")
        if user.strip() == "0":
            return int(rest.split()[1].split("/")[0])
    return 0


def _slabs() -> Reading:
    counts = {}
    for line in Path("/proc/slabinfo").read_text().splitlines()[2:]:
        fields = line.split()
        counts[fields[0]] = int(fields[1])
    return {name: counts[slab] for name, slab in SLABS.items() if slab in counts}


SOURCES: dict[str, Callable[[], int]] = {
    "memory available (KiB)": lambda: _meminfo("MemAvailable"),
    "slab (KiB)": lambda: _meminfo("Slab"),
    "slab, unreclaimable (KiB)": lambda: _meminfo("SUnreclaim"),
    "open files": lambda: _field("/proc/sys/fs/file-nr", 0),
    "dentries": lambda: _field("/proc/sys/fs/dentry-state", 0),
    "inodes": lambda: _field("/proc/sys/fs/inode-nr", 0),
    "cgroups": _cgroups,
    "keys": _keys,
    "own descriptors": lambda: len(open_descriptors()),
    "own mount table": lambda: len(leaks.mount_table()),
}


def read() -> Reading:
    """Return all numbers now, after the kernel has dropped what it merely caches."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    return {name: source() for name, source in SOURCES.items()} | _slabs()


# More per life is a leak: one thing left by one life of ten.  Others use the machine as well, so
# what they have most of, and memory, may grow by more.
LARGEST_GROWTH = 0.1
LARGER_GROWTH = {
    "dentries": 0.5,
    "inodes": 0.5,
    "memory available (KiB)": 4.0,
    "slab (KiB)": 1.0,
    "slab, unreclaimable (KiB)": 1.0,
}


def growth(readings: list[tuple[int, Reading]]) -> dict[str, float]:
    """Return the growth of each number per life, between the first and last readings.

    ``readings`` are (lives so far, reading).  Other programs on the machine only add to the
    numbers: the lowest of the first quarter is compared with the lowest of the last.  For available
    memory, which shrinks, the highest values are compared.
    """
    part = max(len(readings) // 4, 1)
    first, last = readings[:part], readings[-part:]
    lives = max(last[0][0] - first[0][0], 1)
    found = {}
    for name in readings[0][1]:
        early, late = ([reading[name] for _, reading in each] for each in (first, last))
        if name.startswith("memory available"):
            found[name] = (max(early) - max(late)) / lives
        else:
            found[name] = (min(late) - min(early)) / lives
    return found


def growth_of_all(sessions: list[list[tuple[int, Reading]]]) -> dict[str, float]:
    """Return the least growth per life of each number in any session with enough lives.

    A leak grows in each session, other programs' use does not.  Without such a session, the longest
    one counts.
    """
    long_ones = [each for each in sessions if lives_of(each) >= ENOUGH_LIVES]
    grown = [growth(each) for each in long_ones or [max(sessions, key=lives_of)]]
    return {name: min(each[name] for each in grown) for name in grown[0]}


def lives_of(readings: list[tuple[int, Reading]]) -> int:
    """Return the number of lives between the first reading and the last."""
    return readings[-1][0] - readings[0][0]


def leaks_of(sessions: list[list[tuple[int, Reading]]]) -> list[str]:
    """Return a line for each number that grows with the lives.

    After few lives, only numbers that no other program changes are judged.
    """
    enough = any(lives_of(each) >= ENOUGH_LIVES for each in sessions)
    return [
        f"{name}: {each:.3f} more per life"
        for name, each in growth_of_all(sessions).items()
        if each > LARGER_GROWTH.get(name, LARGEST_GROWTH) and (enough or name.startswith("own "))
    ]
