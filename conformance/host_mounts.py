"""Filesystems that a case mounts on the host, as sources of the container's mounts."""

from __future__ import annotations

from pathlib import Path

from conformance import isolation

# Mount options -> flags of mount(2).
FLAGS = {
    "ro": isolation.MS_RDONLY,
    "nosuid": 2,
    "nodev": 4,
    "noexec": 8,
    "nosymfollow": 256,
    "noatime": 1024,
    "nodiratime": 2048,
    "strictatime": 1 << 24,
}
PROPAGATION = {
    "private": isolation.MS_PRIVATE,
    "shared": isolation.MS_SHARED,
    "slave": isolation.MS_SLAVE,
    "unbindable": isolation.MS_UNBINDABLE,
}


def make(target: Path, *options: str) -> None:
    """Mount a tmpfs on a directory, created if needed; raises OSError.

    ``options`` are keys of FLAGS, set on the mount and not on its filesystem, and of PROPAGATION,
    applied afterwards in the given order.
    """
    target.mkdir(parents=True, exist_ok=True)
    isolation.mount("tmpfs", str(target), "tmpfs", data="mode=755,size=4m")
    flags = sum(FLAGS[option] for option in options if option in FLAGS)
    if flags:
        isolation.mount("none", str(target), None, isolation.MS_REMOUNT | isolation.MS_BIND | flags)
    for option in options:
        if option in PROPAGATION:
            isolation.mount("none", str(target), None, PROPAGATION[option])
