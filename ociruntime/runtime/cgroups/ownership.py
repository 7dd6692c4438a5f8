"""Delegation of a v2 cgroup to the container's user (config-linux.md, cgroup ownership).

runtime/plan/cgroup_owner.py decides whether to do it.  It is never done on v1, where the owner of a
directory could lift the limits set in it.
"""

from __future__ import annotations

import errno
import posix

from ociruntime.runtime.cgroups.control_files import failure, read

DELEGATE = "/sys/kernel/cgroup/delegate"
# For kernels before 4.15, which do not list the files that may be delegated.
_FILES = ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads")


def hand_over(directory: str, uid: int, gid: int, listing: str = DELEGATE) -> None:
    """Change the owner of the directory and of the files in the kernel's list, of no others.

    A listed file that does not exist here is skipped.  Raises HostError.
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
