"""Advisory locks with flock(2): a lock belongs to the open file description.

A pod is locked by its directory; what has no directory of its own (``prepareLock``) by a file in
``locks/``.
"""

from __future__ import annotations

import fcntl
import os

from ociruntime.base.errors import HostError
from ociruntime.base.locks import FileLock

PREPARE_LOCK = "prepareLock"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


def open_directory(name: str | bytes, within: int | None = None) -> int:
    """Open a directory, to lock it or to open files below it; a descriptor.  Raises OSError."""
    return os.open(name, _DIRECTORY, dir_fd=within)


def try_lock(fd: int, *, exclusive: bool) -> bool:
    """Take the lock without waiting; return False if another holds it.  Raises HostError."""
    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        _lock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(fd: int) -> None:
    """Release the lock that ``fd`` holds, if any.  Raises HostError."""
    _lock(fd, fcntl.LOCK_UN)


def is_locked(fd: int) -> bool:
    """Return whether another open file holds an exclusive lock; ``fd`` itself must hold none.

    This takes a shared lock for a moment.  Never call it where another process may try to take the
    exclusive lock without waiting: our shared lock would make it fail.  Raises HostError.
    """
    if not try_lock(fd, exclusive=False):
        return True
    unlock(fd)
    return False


def wait_for_release(fd: int) -> None:
    """Wait until no exclusive lock is held.  Raises HostError."""
    _lock(fd, fcntl.LOCK_SH)
    unlock(fd)


def _lock(fd: int, operation: int) -> None:
    """Call flock(2).  Raises BlockingIOError, HostError."""
    try:
        fcntl.flock(fd, operation)
    except BlockingIOError:
        raise
    except OSError as error:
        name = os.readlink(f"/proc/self/fd/{fd}")
        raise HostError(f"lock the directory {name}", error) from None


def prepare_lock(directory: str, exclusive: bool) -> FileLock:
    """Return a lock: shared to render images for a pod, exclusive to remove trees.

    Raises HostError if its directory cannot be created.
    """
    locks = f"{directory}/locks"
    try:
        make_directories(locks)
    except OSError as error:
        raise HostError(f"create {locks}", error) from None
    return FileLock(f"{locks}/{PREPARE_LOCK}", exclusive=exclusive)


def make_directories(path: str) -> None:
    """Create ``path`` and missing parents, mode 0750.  Raises OSError."""
    try:
        os.mkdir(path, 0o750)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_directories(path.rpartition("/")[0])
        try:
            os.mkdir(path, 0o750)
        except FileExistsError:
            pass
