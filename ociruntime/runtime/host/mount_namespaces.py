"""Make a root filesystem a mount point in a temporary mount namespace; read the ids of mounts.

criu requires that the container's root is a mount point.  The root is mounted in a new mount
namespace, and criu is started there.  The kernel removes the mount when the last process in the
namespace exits, even if this process is killed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from ociruntime.base.errors import HostError
from ociruntime.base.files import read_file
from ociruntime.base.linux import CLONE_NEWNS


@contextmanager
def private_root(path: str) -> Iterator[None]:
    """Context manager that enters a new mount namespace where ``path`` is a mount point.

    At its end, the process returns to its original mount namespace and working directory.  Raises
    HostError if ``path`` cannot be mounted, or if the process cannot return.
    """
    from ociruntime._system_calls import ffi, lib

    directory = os.getcwd()
    ours = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        result = lib.oci_bind_privately(ffi.from_buffer(os.fsencode(path) + b"\0"))
        if result < 0:
            raise HostError(
                f'mount "{path}" in a new mount namespace', OSError(-result, os.strerror(-result))
            )
        yield
    finally:
        result = lib.oci_setns(ours, CLONE_NEWNS)
        os.close(ours)
        if result < 0:
            raise HostError(
                "return to the original mount namespace", OSError(-result, os.strerror(-result))
            )
        os.chdir(directory)


class MountId:
    """The ids of a mount.

    ``number`` is the id in mountinfo; the kernel may reuse it for a later mount.  ``unique`` is an
    id that is never reused, or 0 before Linux 6.8.
    """

    __slots__ = ("number", "unique")

    def __init__(self, number: int, unique: int) -> None:
        self.number = number
        self.unique = unique

    def is_same(self, other: MountId) -> bool:
        """Return whether ``other`` has the same ``number`` and the same ``unique``."""
        return (self.number, self.unique) == (other.number, other.unique)


def mount_id(fd: int) -> MountId:
    """Return the ids of the mount that contains an open file.

    Raises HostError if the ids cannot be read.
    """
    from ociruntime._system_calls import lib

    path = f"/proc/self/fdinfo/{fd}"
    try:
        lines = read_file(path).splitlines()
    except OSError as error:
        raise HostError(f'read "{path}"', error) from None
    for line in lines:
        if line.startswith(b"mnt_id:"):
            return MountId(int(line[7:]), lib.oci_unique_mount_id(fd))
    raise HostError(f'read "{path}"', OSError(errno.ENODATA, "the field mnt_id is missing"))
