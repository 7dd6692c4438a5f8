"""The executor's program as a sealed memory file.

The container can reach its init's executable through /proc/1/exe. All it finds there is a sealed
copy in memory: no file on disk, and not writable (CVE-2019-5736). It is made outside the
container's cgroup, which is not charged for it.
"""

from __future__ import annotations

import posix
from fcntl import F_ADD_SEALS, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_WRITE, fcntl

from ociruntime.base.errors import HostError, InternalError

PROGRAM = __file__.rpartition("/")[0] + "/_executor"
MFD_CLOEXEC = 1
MFD_ALLOW_SEALING = 2
MFD_EXEC = 0x10
EINVAL = 22


def sealed_executor() -> int:
    """A descriptor of the program, sealed against every change.  Raises HostError."""
    try:
        source = posix.open(PROGRAM, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError as error:
        raise HostError(f"open {PROGRAM}", error, "the package was built without it") from None
    try:
        return _sealed_copy(source, posix.fstat(source).st_size)
    except OSError as error:
        raise HostError(f"copy {PROGRAM} to memory", error) from None
    finally:
        posix.close(source)


def plan_file(plan: bytes) -> int:
    """A descriptor from which the executor reads ``plan``.  Raises HostError."""
    try:
        fd = posix.memfd_create("plan", MFD_CLOEXEC)
        try:
            if posix.write(fd, plan) != len(plan):
                raise InternalError("the plan was written short")
        except BaseException:
            posix.close(fd)
            raise
    except OSError as error:
        raise HostError("write the plan to memory", error) from None
    return fd


def _sealed_copy(source: int, size: int) -> int:
    copy = _executable_file()
    try:
        offset = 0
        while offset < size:
            sent = posix.sendfile(copy, source, offset, size - offset)
            if sent == 0:
                raise InternalError(f"{PROGRAM} shrank while it was read")
            offset += sent
        fcntl(copy, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
    except BaseException:
        posix.close(copy)
        raise
    return copy


def _executable_file() -> int:
    try:
        # Since Linux 6.3 the kernel expects this flag, and may be configured to refuse other files.
        return posix.memfd_create("ociruntime", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC)
    except OSError as error:
        if error.errno != EINVAL:
            raise
        return posix.memfd_create("ociruntime", MFD_CLOEXEC | MFD_ALLOW_SEALING)
