"""File systems that a case mounts for itself, as sources of the container's mounts."""

from __future__ import annotations

from pathlib import Path

from conformance import isolation

# Words of mount options -> what mount(2) takes.
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
    """Mount a tmpfs on a directory, made if it is not there; raises OSError.

    ``options``: words of FLAGS, which become flags of the mount alone, never of its file
    system; then of PROPAGATION, in this order.
    """
    target.mkdir(parents=True, exist_ok=True)
    isolation.mount("tmpfs", str(target), "tmpfs", data="mode=755,size=4m")
    flags = sum(FLAGS[option] for option in options if option in FLAGS)
    if flags:
        isolation.mount("none", str(target), None, isolation.MS_REMOUNT | isolation.MS_BIND | flags)
    for option in options:
        if option in PROPAGATION:
            isolation.mount("none", str(target), None, PROPAGATION[option])
