"""The host's mounts of proc and sysfs, which ``--no-pivot`` would leave reachable."""

from __future__ import annotations

from ociruntime.base.errors import HostError
from ociruntime.base.mountinfo import OWN, own_mountinfo, parse_mountinfo


def kernel_mounts(rootfs: str) -> tuple[str, ...]:
    """Return their mount points outside ``rootfs``, last one first.  Raises HostError."""
    try:
        return find_kernel_mounts(own_mountinfo(), rootfs)
    except OSError as error:
        raise HostError(f"read {OWN}", error) from None


def find_kernel_mounts(mountinfo: str, rootfs: str) -> tuple[str, ...]:
    """Return the same from the text of a mountinfo."""
    targets = [
        mount.target for mount in parse_mountinfo(mountinfo) if mount.fstype in ("proc", "sysfs")
    ]
    outside = [each for each in targets if not f"{each}/".startswith(f"{rootfs}/")]
    return tuple(reversed(outside))
