"""Handing a v2 cgroup over to the container's user (config-linux.md, cgroup ownership).

Whether to do it is decided in runtime/plan/cgroup_owner.py.  Never on v1, where the owner of a
directory could undo the limits set in it.
"""

from __future__ import annotations

import errno
import posix

from ociruntime.runtime.cgroups.control_files import failure, read

DELEGATE = "/sys/kernel/cgroup/delegate"
# For kernels (before 4.15) that do not say which files may be handed over.
_FILES = ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads")


def hand_over(directory: str, uid: int, gid: int, listing: str = DELEGATE) -> None:
    """Change the owner of the directory and of the files listed by the kernel, no other.

    A listed file that this kernel or hierarchy does not have is no error.  Raises HostError.
    """
    try:
        names = tuple(read(listing).split())
    except OSError:
        names = _FILES
    for path in (directory, *(f"{directory}/{name}" for name in names)):
        try:
            posix.chown(path, uid, gid)
        except OSError as error:
            if error.errno == errno.ENOENT and path != directory:
                continue
            raise failure(f"change the owner of {path} to {uid}:{gid}", error) from None
