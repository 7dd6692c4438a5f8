"""Reading and writing small files of the host: whole, and never half."""

from __future__ import annotations

import posix

ENOENT = 2


def read_file(path: str) -> bytes:
    """The whole file.  Raises OSError."""
    fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        # To the very end: the kernel gives lists (mountinfo, cgroup.procs) in pieces below a page.
        parts = []
        while part := posix.read(fd, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        posix.close(fd)


def write_new(path: str, data: bytes, mode: int = 0o600) -> None:
    """Make ``path``, which must not exist, with all of ``data``.  Raises OSError.

    A file that could not be written whole is removed again.
    """
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL | posix.O_CLOEXEC | posix.O_NOFOLLOW
    fd = posix.open(path, flags, mode)
    try:
        while data:
            data = data[posix.write(fd, data) :]
    except OSError:
        posix.unlink(path)
        raise
    finally:
        posix.close(fd)


def replace_file(path: str, data: bytes, mode: int = 0o600) -> None:
    """Put ``data`` at ``path``: readers see the old file or the whole new one.

    Raises OSError.  The temporary name carries our pid, so that a leftover of a killed
    writer is in nobody's way.
    """
    directory, _, name = path.rpartition("/")
    temporary = f"{directory}/.{name}.{posix.getpid()}"
    remove_file(temporary)
    write_new(temporary, data, mode)
    try:
        posix.rename(temporary, path)
    except OSError:
        remove_file(temporary)
        raise


def remove_file(path: str) -> None:
    """Remove ``path`` if it is there.  Raises OSError."""
    try:
        posix.unlink(path)
    except FileNotFoundError:
        pass


def exists(path: str) -> bool:
    """Whether there is anything at ``path``; a symbolic link counts."""
    try:
        posix.lstat(path)
    except OSError:
        return False
    return True
