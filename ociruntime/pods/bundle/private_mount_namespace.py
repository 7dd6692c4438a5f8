"""Mount and unmount filesystems in a pod's private mount namespace.

The kernel removes the namespace with all its mounts when the pod's monitor exits.
"""

from __future__ import annotations

import os
from errno import EINVAL

from ociruntime.base.errors import HostError

_left: set[str] = set()  # non-empty once this process has left the host's mount namespace
NOSUID, NODEV, NOEXEC = 1 << 1, 1 << 2, 1 << 3


def enter_own_mounts() -> None:
    """Move this process to a new mount namespace, whose mounts are slaves of the host's mounts.

    Mounts of the host propagate to the new namespace, but not vice versa.  Does nothing if this
    process, or the process that it was forked from, has called this function before.  Raises
    HostError if the namespace cannot be created.
    """
    from ociruntime._system_calls import lib

    if not _left:
        check_call(lib.oci_own_mounts(), "create a mount namespace")
        _left.add("the host's")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount ``source`` at ``target``; raise HostError if this fails.

    ``kind`` is the filesystem type, ``flags`` are MS_* flags, ``data`` the filesystem's options.
    """
    from ociruntime._system_calls import ffi, lib

    texts = [
        ffi.from_buffer(text.encode("utf-8", "surrogateescape") + b"\0")
        for text in (source, target, kind, data)
    ]
    result = lib.oci_mount(texts[0], texts[1], texts[2], flags, texts[3])
    check_call(result, f'mount {kind or source} at "{target}"')


def share_memory(path: str, size: int, owner: int) -> None:
    """Create the directory ``path`` and mount a tmpfs of ``size`` bytes on it.

    The tmpfs becomes the pod's /dev/shm.  ``owner`` is the host uid and gid of its root directory.
    Raises HostError if the directory cannot be created or the mount fails.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise HostError(f'create the directory "{path}"', error) from None
    data = f"mode=1777,size={size},uid={owner},gid={owner}"
    mount("shm", path, "tmpfs", NOSUID | NODEV | NOEXEC, data)


def unmount(path: str) -> None:
    """Unmount ``path`` with MNT_DETACH; do nothing if it is not a mount point.

    Raises HostError if umount2(2) fails.
    """
    from ociruntime._system_calls import ffi, lib

    result = lib.oci_detach_mount(ffi.from_buffer(path.encode("utf-8", "surrogateescape") + b"\0"))
    if result != -EINVAL:  # EINVAL: nothing is mounted there
        check_call(result, f'unmount "{path}"')


def check_call(result: int, action: str) -> None:
    """Raise HostError if ``result``, returned by a C function, is a negative errno.

    The message begins with ``action``, what was attempted.
    """
    if result < 0:
        raise HostError(action, OSError(-result, os.strerror(-result)))
