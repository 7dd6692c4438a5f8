"""The place in which root tests run: an own mount namespace, and orphans come to us.

What the runtime calls "the host" is then a mount table that nobody else changes, so a mount
left behind is seen exactly, and vanishes with the test process whatever happens.  ``/run`` and
``/dev/shm`` are empty: state roots and locks of runtimes and engines are the session's own.  As
child subreaper the test process stands where conmon or a containerd shim stands in production.
"""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
MS_NODEV = 4
MS_NOEXEC = 8
MS_NOATIME = 1024
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
MNT_DETACH = 2
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def mount(source: str, target: str, fstype: str, flags: int = 0, data: str = "") -> None:
    """Mount a file system; raises OSError."""
    result = _libc.mount(
        source.encode(), target.encode(), fstype.encode(), ctypes.c_ulong(flags), data.encode()
    )
    _check(result, f"mount {target}")


def unmount(target: str) -> None:
    """Detach a mount with all below; raises OSError."""
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def enter() -> None:
    """Unshare the mount namespace, empty /run, become child subreaper.  Call once, as root."""
    _check(_libc.unshare(CLONE_NEWNS), "unshare")
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    mount("tmpfs", "/run", "tmpfs", data="mode=755")
    mount("tmpfs", "/dev/shm", "tmpfs", data="mode=1777")
    adopt_orphans()


def adopt_orphans() -> None:
    """Become the parent of every orphaned descendant."""
    _check(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")
