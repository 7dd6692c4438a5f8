"""Facts about the host's kernel that apps depend on."""

from __future__ import annotations

import os

from ociruntime.base.files import read_file
from ociruntime.base.mountinfo import own_mountinfo, parse_mountinfo
from ociruntime.pods.manifest.oci_resources import SWAP


def controllers() -> frozenset[str]:
    """Return the names of the host's cgroup controllers, of v2 or else of v1.

    "swap" is among them if the memory controller accounts for swap.
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
    """Return the controllers of the mounted v1 hierarchies."""
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
    """Return the directories in which filesystems show details of the host's mounts and devices.

    ``cgroups`` tells whether that of the cgroups is one of them.
    """
    top = "/sys/fs"
    try:
        names = sorted(os.listdir(top))
    except OSError:
        return ()
    return tuple(f"{top}/{name}" for name in names if cgroups or name != "cgroup")


def last_capability() -> int:
    """Return the number of the kernel's last capability, 40 if it is not known."""
    try:
        return int(read_file("/proc/sys/kernel/cap_last_cap"))
    except (OSError, ValueError):
        return 40
