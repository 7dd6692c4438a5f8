"""The host's mounts of proc and sysfs, which ``--no-pivot`` would leave reachable."""

from __future__ import annotations

from ociruntime.base.errors import HostError
from ociruntime.base.files import read_file
from ociruntime.base.paths import mount_lines

MOUNTINFO = "/proc/self/mountinfo"


def kernel_mounts(rootfs: str) -> tuple[str, ...]:
    """Return their mount points outside ``rootfs``, last one first.  Raises HostError."""
    try:
        return find_kernel_mounts(read_file(MOUNTINFO).decode("utf-8", "surrogateescape"), rootfs)
    except OSError as error:
        raise HostError(f"read {MOUNTINFO}", error) from None


def find_kernel_mounts(mountinfo: str, rootfs: str) -> tuple[str, ...]:
    """Return the same from the text of proc_pid_mountinfo(5)."""
    found = []
    for line in mount_lines(mountinfo):
        left, _, right = line.partition(" - ")
        target = plain_path(left.split(" ")[4])
        below = f"{target}/".startswith(f"{rootfs}/")
        if right.split(" ")[0] in ("proc", "sysfs") and not below:
            found.append(target)
    return tuple(reversed(found))


def plain_path(text: str) -> str:
    """Undo the escapes of a path in mountinfo."""
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
        text = text.replace(f"\\{code}", character)
    return text
