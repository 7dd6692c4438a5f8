"""Lock pods and the image trees that pods share, with flock(2).

A pod is locked by its directory, the trees by the file ``locks/prepareLock``.  A lock belongs to
the open file description, so that a process that inherits the descriptor holds the lock, too.
"""

from __future__ import annotations

import fcntl
import os

from ociruntime.base.errors import HostError
from ociruntime.base.locks import FileLock

PREPARE_LOCK = "prepareLock"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


def open_directory(name: str | bytes, within: int | None = None) -> int:
    """Open the directory ``name``, below the descriptor ``within``; return a descriptor.

    A symbolic link is not followed.  Raises OSError.
    """
    return os.open(name, _DIRECTORY, dir_fd=within)


def try_lock(fd: int, *, exclusive: bool) -> bool:
    """Lock the file of ``fd`` without waiting; return False if it is locked by another open file.

    Raises HostError if flock(2) fails.
    """
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
    """Return whether the file of ``fd`` is locked exclusively by another open file.

    ``fd`` itself must hold no lock.  This takes a shared lock for a moment: never call it where
    another process may try to take the exclusive lock without waiting, because our shared lock
    would make that attempt fail.  Raises HostError if flock(2) fails.
    """
    if not try_lock(fd, exclusive=False):
        return True
    unlock(fd)
    return False


def wait_for_release(fd: int) -> None:
    """Wait until no process holds an exclusive lock on the file of ``fd``.  Raises HostError."""
    _lock(fd, fcntl.LOCK_SH)
    unlock(fd)


def _lock(fd: int, operation: int) -> None:
    """Call flock(2).  Raises BlockingIOError if it would wait despite LOCK_NB, HostError."""
    try:
        fcntl.flock(fd, operation)
    except BlockingIOError:
        raise
    except OSError as error:
        name = os.readlink(f"/proc/self/fd/{fd}")
        raise HostError(f'lock the directory "{name}"', error) from None


def prepare_lock(directory: str, exclusive: bool) -> FileLock:
    """Return the lock, not yet taken, of the rendered image trees in the data directory.

    Take it shared to render images for a pod, exclusively to remove trees.  Raises HostError if
    the directory ``locks`` cannot be created.
    """
    locks = f"{directory}/locks"
    try:
        make_directories(locks)
    except OSError as error:
        raise HostError(f'create the directory "{locks}"', error) from None
    return FileLock(f"{locks}/{PREPARE_LOCK}", exclusive=exclusive)


def make_directories(path: str) -> None:
    """Create the directory ``path`` and its missing parents, with mode 0750.  Raises OSError."""
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
