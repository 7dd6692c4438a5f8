"""Facts about the host's kernel that apps depend on."""

from __future__ import annotations

from ociruntime.base.files import read_file
from ociruntime.base.mountinfo import own_mountinfo, parse_mountinfo


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
        mounts = parse_mountinfo(own_mountinfo())
        known = {line.split("\t")[0] for line in read_file("/proc/cgroups").decode().splitlines()}
    except OSError:
        return found
    for mount in mounts:
        if mount.fstype == "cgroup":
            found.update(mount.super_options.split(","))
    return found & known


def last_capability() -> int:
    """Return the number of the kernel's last capability."""
    try:
        return int(read_file("/proc/sys/kernel/cap_last_cap"))
    except (OSError, ValueError):
        return 40
