"""Sealed in-memory copies of host programs that run where a container can reach them.

A container can open the executable of a process in its PID namespace through /proc/PID/exe, and
could overwrite the host's program (CVE-2019-5736).  A sealed memfd cannot be written to.
"""

from __future__ import annotations

import posix
from errno import EINVAL
from fcntl import F_ADD_SEALS, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_WRITE, fcntl

from ociruntime.base.errors import HostError, InternalError

MFD_CLOEXEC = 1
MFD_ALLOW_SEALING = 2
MFD_EXEC = 0x10


def sealed_program(path: str) -> int:
    """Copy the program at ``path`` to a sealed memfd; return its descriptor.

    Raises HostError.
    """
    try:
        source = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError as error:
        hint = "the installation is incomplete: install ociruntime again"
        raise HostError(f'open "{path}"', error, hint) from None
    try:
        return _sealed_copy(source, path)
    except OSError as error:
        raise HostError(f'copy "{path}" to memory', error) from None
    finally:
        posix.close(source)


def _sealed_copy(source: int, path: str) -> int:
    size = posix.fstat(source).st_size
    copy = _executable_file()
    try:
        offset = 0
        while offset < size:
            sent = posix.sendfile(copy, source, offset, size - offset)
            if sent == 0:
                raise InternalError(f'copy "{path}" to memory: the file was truncated meanwhile')
            offset += sent
        fcntl(copy, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
    except BaseException:
        posix.close(copy)
        raise
    return copy


def _executable_file() -> int:
    try:
        # Since Linux 6.3 the kernel expects MFD_EXEC, and may refuse memfds without it.
        return posix.memfd_create("ociruntime", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC)
    except OSError as error:
        if error.errno != EINVAL:
            raise
        return posix.memfd_create("ociruntime", MFD_CLOEXEC | MFD_ALLOW_SEALING)
