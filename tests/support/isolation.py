"""The isolation of root tests: a private mount namespace, and adoption of orphans.

What the runtime calls "the host" is then a mount table that nothing else changes: any leaked mount
is detected, and vanishes with the test process in any case.  ``/run`` and ``/dev/shm`` are empty:
state roots and locks of runtimes and engines are the session's own.  So are the device nodes: any
change of their mode or owner is detected, and the machine's own nodes stay unchanged.  The test
process is a child subreaper, like conmon or a containerd shim in production.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator

CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
MS_NODEV = 4
MS_NOEXEC = 8
MS_NOATIME = 1024
MS_BIND = 4096
MS_MOVE = 8192
MS_REC = 0x4000
MS_PRIVATE = 1 << 18
MS_SHARED = 1 << 20
MNT_DETACH = 2
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def mount(source: str, target: str, fstype: str, flags: int = 0, data: str = "") -> None:
    """Mount a filesystem; raises OSError."""
    result = _libc.mount(
        source.encode(), target.encode(), fstype.encode(), ctypes.c_ulong(flags), data.encode()
    )
    _check(result, f"mount {target}")


def unmount(target: str) -> None:
    """Detach a mount with everything below it; raises OSError."""
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def enter() -> None:
    """Unshare the mount namespace, mount private /run and /dev, become subreaper; call once."""
    _check(_libc.unshare(CLONE_NEWNS), "unshare")
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    mount("tmpfs", "/run", "tmpfs", data="mode=755")
    own_devices()
    mount("tmpfs", "/dev/shm", "tmpfs", data="mode=1777")
    adopt_orphans()


def own_devices() -> None:
    """Cover /dev with a tmpfs that has the same nodes, and the same filesystems mounted in it.

    Standard streams that are a device of the covered /dev are reopened: children inherit them.
    """
    place = tempfile.mkdtemp(prefix="ociruntime-dev-", dir="/var/tmp")
    try:
        # Without nodev: its nodes are to work, in containers that bind them as well.
        mount("tmpfs", place, "tmpfs", data="mode=755")
        _copy_devices("/dev", place)
        mount(place, "/dev", "", MS_MOVE)
    finally:
        os.rmdir(place)
    for number in (0, 1, 2):
        _reopen_device(number)


def _copy_devices(source: str, target: str) -> None:
    for entry in os.scandir(source):
        about = entry.stat(follow_symlinks=False)
        copy = os.path.join(target, entry.name)
        if stat.S_ISLNK(about.st_mode):
            os.symlink(os.readlink(entry.path), copy)
        elif stat.S_ISDIR(about.st_mode):
            os.mkdir(copy)
            os.chmod(copy, stat.S_IMODE(about.st_mode))
            if os.path.ismount(entry.path):
                mount(entry.path, copy, "", MS_BIND)
            else:
                _copy_devices(entry.path, copy)
        elif stat.S_ISCHR(about.st_mode) or stat.S_ISBLK(about.st_mode):
            os.mknod(copy, about.st_mode, about.st_rdev)
            os.chown(copy, about.st_uid, about.st_gid)
            os.chmod(copy, stat.S_IMODE(about.st_mode))


def own_cgroup_root() -> None:
    """Cover the tmpfs of /sys/fs/cgroup with a private one that has the same hierarchies.

    Each session adds and removes mount points: removing one from a shared tmpfs detaches what
    another session has mounted there.
    """
    root = "/sys/fs/cgroup"
    place = tempfile.mkdtemp(prefix="ociruntime-cgroup-", dir="/var/tmp")
    try:
        mount("tmpfs", place, "tmpfs", data="mode=755")
        for entry in os.scandir(root):
            copy = os.path.join(place, entry.name)
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), copy)
            elif os.path.ismount(entry.path):
                os.mkdir(copy)
                mount(entry.path, copy, "", MS_BIND)
        mount(place, root, "", MS_MOVE)
    finally:
        os.rmdir(place)


@contextlib.contextmanager
def own_network() -> Iterator[None]:
    """Move this thread, and what it starts, to a network namespace with only ``lo``."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.unshare(CLONE_NEWNET), "unshare")
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            yield
        finally:
            _check(_libc.setns(home, CLONE_NEWNET), "setns")
    finally:
        os.close(home)


def _reopen_device(number: int) -> None:
    path = os.readlink(f"/proc/self/fd/{number}")
    about = os.fstat(number)
    if not stat.S_ISCHR(about.st_mode) or os.isatty(number) or not os.path.exists(path):
        return
    opened = os.open(path, fcntl.fcntl(number, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_APPEND))
    os.dup2(opened, number)
    os.close(opened)


def adopt_orphans() -> None:
    """Become the parent of every orphaned descendant."""
    _check(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")
