"""Facts about the host's kernel that apps depend on."""

from __future__ import annotations

from ociruntime.base.files import read_file
from ociruntime.base.paths import mount_lines


def controllers() -> frozenset[str]:
    """Return the cgroup controllers that are available for limits, on v1 and v2."""
    found: set[str] = set()
    try:
        found.update(read_file("/sys/fs/cgroup/cgroup.controllers").decode().split())
    except OSError:
        pass
    if not found:
        found = _mounted()
    return frozenset(found)


def _mounted() -> set[str]:
    """Return the controllers of the mounted v1 hierarchies."""
    found: set[str] = set()
    try:
        table = read_file("/proc/self/mountinfo").decode("utf-8", "surrogateescape")
        known = {line.split("\t")[0] for line in read_file("/proc/cgroups").decode().splitlines()}
    except OSError:
        return found
    for line in mount_lines(table):
        kind, _, rest = line.partition(" - ")[2].partition(" ")
        if kind == "cgroup":
            found.update(rest.split(" ")[-1].split(","))
    return found & known


def last_capability() -> int:
    """Return the number of the kernel's last capability."""
    try:
        return int(read_file("/proc/sys/kernel/cap_last_cap"))
    except (OSError, ValueError):
        return 40
