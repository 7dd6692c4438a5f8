"""Translate bits of the kernel's interface back to the names that users write."""

from __future__ import annotations

from ociruntime.base.linux import (
    CAPABILITIES,
    MOUNT_ATTR__ATIME,
    MOUNT_ATTR_NOATIME,
    MOUNT_ATTR_NODEV,
    MOUNT_ATTR_NODIRATIME,
    MOUNT_ATTR_NOEXEC,
    MOUNT_ATTR_NOSUID,
    MOUNT_ATTR_NOSYMFOLLOW,
    MOUNT_ATTR_RDONLY,
    MOUNT_ATTR_STRICTATIME,
    NAMESPACE_FILES,
    NAMESPACES,
    RLIMITS,
    SCHEDULERS,
)
from ociruntime.runtime.plan.mount_options import PROPAGATION

# (bit, name when set, name when cleared)
ATTRIBUTE_WORDS: tuple[tuple[int, str, str], ...] = (
    (MOUNT_ATTR_RDONLY, "ro", "rw"),
    (MOUNT_ATTR_NOSUID, "nosuid", "suid"),
    (MOUNT_ATTR_NODEV, "nodev", "dev"),
    (MOUNT_ATTR_NOEXEC, "noexec", "exec"),
    (MOUNT_ATTR_NODIRATIME, "nodiratime", "diratime"),
    (MOUNT_ATTR_NOSYMFOLLOW, "nosymfollow", "symfollow"),
)


def attribute_words(on: int, off: int = 0) -> list[str]:
    """``["ro", "nosuid"]`` for MOUNT_ATTR_* masks to set and to clear."""
    words = [word for bit, word, _ in ATTRIBUTE_WORDS if on & bit]
    words += [word for bit, _, word in ATTRIBUTE_WORDS if off & bit & ~on]
    if on & MOUNT_ATTR__ATIME == MOUNT_ATTR_NOATIME:
        words.append("noatime")
    elif on & MOUNT_ATTR__ATIME == MOUNT_ATTR_STRICTATIME:
        words.append("strictatime")
    elif off & MOUNT_ATTR__ATIME:
        words.append("relatime")
    return words


def namespace_words(flags: int) -> list[str]:
    """``["mnt", "pid"]`` for CLONE_NEW* bits, as the files in /proc/PID/ns are called."""
    return [NAMESPACE_FILES[kind] for kind, flag in NAMESPACES.items() if flags & flag]


def propagation_word(flags: int) -> str:
    """``rslave`` for MS_SLAVE and MS_REC; empty for 0."""
    return next((word for word, value in PROPAGATION.items() if value == flags), "")


def capability_words(mask: int) -> list[str]:
    """``["chown", "kill"]``, without the prefix."""
    return [name[4:].lower() for number, name in enumerate(CAPABILITIES) if mask >> number & 1]


def rlimit_word(resource: int) -> str:
    """``nofile`` for 7."""
    return next((name[7:].lower() for name, n in RLIMITS.items() if n == resource), str(resource))


def scheduler_word(policy: int) -> str:
    """``SCHED_FIFO`` for 1."""
    return next((name for name, number in SCHEDULERS.items() if number == policy), str(policy))
