"""Mount namespaces for a moment: one where a root file system is a mount, and a restored one.

The mount of a root, on which criu insists, is in a namespace that then is only that of the programs
started meanwhile: the kernel undoes it with the last of them, whatever becomes of us.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from ociruntime.errors import HostError
from ociruntime.linux import CLONE_NEWNS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def private_root(path: str) -> Iterator[None]:
    """Be in such a namespace; afterwards in ours again, in the same working directory.

    Raises HostError.
    """
    from ociruntime._shim import ffi, lib

    directory = os.getcwd()
    ours = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        result = lib.oci_bind_privately(ffi.from_buffer(os.fsencode(path) + b"\0"))
        if result < 0:
            raise HostError(f"mount {path} in a namespace", OSError(-result, os.strerror(-result)))
        yield
    finally:
        result = lib.oci_setns(ours, CLONE_NEWNS)
        os.close(ours)
        if result < 0:
            raise HostError("go back to the mounts", OSError(-result, os.strerror(-result)))
        os.chdir(directory)


def remount_inside(pid: int, flags: dict[str, int]) -> None:
    """Give mounts of the mount namespace of ``pid`` these MS_* flags: path -> flags.

    Its processes must stand still, so that the paths stay what they are.  Raises HostError.
    """
    from ociruntime._shim import ffi, lib

    directory = os.getcwd()
    ours = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    theirs = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for path, wanted in flags.items():
            text = ffi.from_buffer(os.fsencode(path) + b"\0")
            result = lib.oci_remount_inside(theirs, ours, text, wanted)
            if result < 0:
                error = OSError(-result, os.strerror(-result))
                raise HostError(f"restrict the restored mount at {path}", error)
    finally:
        os.close(ours)
        os.close(theirs)
        os.chdir(directory)
