"""Reading and atomic writing of small files on the host."""

from __future__ import annotations

import posix

ENOENT = 2


def read_file(path: str) -> bytes:
    """Return the contents of a file.  Raises OSError."""
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
    """Create ``path``, which must not exist, with ``data``.  Raises OSError.

    A partly written file is removed.
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
    """Replace ``path`` atomically: readers see the old file or the complete new one.

    Raises OSError.  The temporary name has our pid, so that a stale file of a killed writer does
    no harm.
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
    """Remove ``path`` if it exists.  Raises OSError."""
    try:
        posix.unlink(path)
    except FileNotFoundError:
        pass


def exists(path: str) -> bool:
    """Return whether ``path`` exists; a dangling symbolic link counts."""
    try:
        posix.lstat(path)
    except OSError:
        return False
    return True
