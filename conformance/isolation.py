"""System calls that isolate a case from the rest of the host."""

from __future__ import annotations

import ctypes
import os

_LIBC = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWNET = 0x40000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC = 1, 32, 4096, 16384
MS_UNBINDABLE, MS_PRIVATE, MS_SLAVE, MS_SHARED = 1 << 17, 1 << 18, 1 << 19, 1 << 20
MNT_DETACH = 2
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def become_subreaper() -> None:
    """Make this process the parent of its orphaned descendants."""
    _check(_LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "child subreaper")


def tell_of_parents_end(signal: int) -> None:
    """Have the kernel send this process a signal when its parent exits."""
    _check(_LIBC.prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0), "parent-death signal")


def drop_from_bounding_set(capability: int) -> None:
    """Drop a capability, by number, from the bounding set of this process and future children."""
    _check(_LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0), "bounding set")


def unshare(flags: int) -> None:
    """Move this process to new namespaces, by CLONE_NEW* flags; raises OSError."""
    _check(_LIBC.unshare(flags), "unshare")


def mount(
    source: str, target: str, fstype: str | None = None, flags: int = 0, data: str | None = None
) -> None:
    """Mount a filesystem by one system call; raises OSError."""
    words = [None if word is None else word.encode() for word in (source, target, fstype, data)]
    result = _LIBC.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])
    _check(result, f"mount on {target}")


def unmount(target: str) -> None:
    """Unmount lazily (MNT_DETACH); raises OSError."""
    _check(_LIBC.umount2(target.encode(), MNT_DETACH), f"unmount {target}")


def separate() -> None:
    """Move to new mount, network, UTS and IPC namespaces: leaks there end with this process."""
    unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC)
    mount("none", "/", None, MS_REC | MS_PRIVATE)
