"""Look up the facts about the host's kernel on which an app's ``config.json`` depends."""

from __future__ import annotations

import os

from ociruntime.base.files import read_file
from ociruntime.base.mountinfo import own_mountinfo, parse_mountinfo
from ociruntime.pods.manifest.oci_resources import SWAP


def controllers() -> frozenset[str]:
    """Return the names of the host's cgroup controllers.

    If the host has no cgroup v2 controllers, returns its cgroup v1 controllers.  The names include
    "swap" if the memory controller can limit swap.
    """
    names: set[str] = set()
    try:
        names.update(read_file("/sys/fs/cgroup/cgroup.controllers").decode().split())
    except OSError:
        pass
    if "memory" in names:
        names.add(SWAP)
    return frozenset(names or _mounted())


def _mounted() -> set[str]:
    """Return the names of the controllers of the mounted cgroup v1 hierarchies."""
    names: set[str] = set()
    try:
        mounts = parse_mountinfo(own_mountinfo())
        known = {line.split("\t")[0] for line in read_file("/proc/cgroups").decode().splitlines()}
    except OSError:
        return names
    for mount in mounts:
        if mount.fstype == "cgroup":
            names.update(mount.super_options.split(","))
            if os.path.exists(f"{mount.target}/memory.memsw.limit_in_bytes"):
                known.add(SWAP)
                names.add(SWAP)
    return names & known


def filesystems(*, cgroups: bool) -> tuple[str, ...]:
    """Return the directories in /sys/fs that must be masked, because they show the host's mounts.

    Includes /sys/fs/cgroup only if ``cgroups`` is True.  Returns () if /sys/fs cannot be read.
    """
    top = "/sys/fs"
    try:
        names = sorted(os.listdir(top))
    except OSError:
        return ()
    return tuple(f"{top}/{name}" for name in names if cgroups or name != "cgroup")


def last_capability() -> int:
    """Return the highest capability number of the kernel, or 40 if it cannot be determined."""
    try:
        return int(read_file("/proc/sys/kernel/cap_last_cap"))
    except (OSError, ValueError):
        return 40
