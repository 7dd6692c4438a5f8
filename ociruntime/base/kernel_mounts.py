"""Where the host has mounted proc and sysfs: for ``--no-pivot``, which leaves its tree behind."""

from __future__ import annotations

from ociruntime.base.errors import HostError
from ociruntime.base.files import read_file
from ociruntime.base.paths import mount_lines

MOUNTINFO = "/proc/self/mountinfo"


def kernel_mounts(rootfs: str) -> tuple[str, ...]:
    """Their mount points but those below ``rootfs``, the last one first.  Raises HostError."""
    try:
        return find_kernel_mounts(read_file(MOUNTINFO).decode("utf-8", "surrogateescape"), rootfs)
    except OSError as error:
        raise HostError(f"read {MOUNTINFO}", error) from None


def find_kernel_mounts(mountinfo: str, rootfs: str) -> tuple[str, ...]:
    """The same from the text, as proc_pid_mountinfo(5) has it."""
    found = []
    for line in mount_lines(mountinfo):
        left, _, right = line.partition(" - ")
        target = plain_path(left.split(" ")[4])
        below = f"{target}/".startswith(f"{rootfs}/")
        if right.split(" ")[0] in ("proc", "sysfs") and not below:
            found.append(target)
    return tuple(reversed(found))


def plain_path(text: str) -> str:
    """A path as it is, of one that mountinfo has escaped."""
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
        text = text.replace(f"\\{code}", character)
    return text
