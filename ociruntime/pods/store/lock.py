"""Lock pods, and the image trees that pods share, with flock(2).

A pod's lock is a lock on the pod's directory.  The lock of the trees is a lock on the file
``locks/prepareLock``.  A lock belongs to an open file description: each process that inherits the
descriptor holds the lock, too.
"""

from __future__ import annotations

import fcntl
import os

from ociruntime.base.errors import HostError
from ociruntime.base.locks import FileLock

PREPARE_LOCK = "prepareLock"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


def open_directory(name: str | bytes, within: int | None = None) -> int:
    """Open the directory ``name`` and return its descriptor; raise OSError if this fails.

    ``name`` is relative to the directory ``within``, a descriptor; None means the working
    directory.  The last component must not be a symbolic link.
    """
    return os.open(name, _DIRECTORY, dir_fd=within)


def try_lock(fd: int, *, exclusive: bool) -> bool:
    """Lock the file with the descriptor ``fd``, without waiting; return whether it is locked now.

    Uses flock(2).  Returns False if another process holds a conflicting lock.  Raises HostError if
    flock(2) fails.
    """
    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        _lock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(fd: int) -> None:
    """Release the lock of ``fd``, if it has one; raise HostError if flock(2) fails."""
    _lock(fd, fcntl.LOCK_UN)


def is_locked(fd: int) -> bool:
    """Return whether another process holds an exclusive lock on the file ``fd``.

    ``fd`` must hold no lock.  The function takes a shared lock for a moment; at that moment,
    another process that tries to take the exclusive lock without waiting fails.  Raises HostError
    if flock(2) fails.
    """
    if not try_lock(fd, exclusive=False):
        return True
    unlock(fd)
    return False


def wait_for_release(fd: int) -> None:
    """Wait until no process holds an exclusive lock on the file ``fd``.

    Raises HostError if flock(2) fails.
    """
    _lock(fd, fcntl.LOCK_SH)
    unlock(fd)


def _lock(fd: int, operation: int) -> None:
    """Lock or unlock the file ``fd`` with flock(2).

    ``operation`` is LOCK_SH, LOCK_EX or LOCK_UN, combined with LOCK_NB if the call must not wait.
    Raises BlockingIOError if another process holds a conflicting lock, HostError if flock(2) fails.
    """
    try:
        fcntl.flock(fd, operation)
    except BlockingIOError:
        raise
    except OSError as error:
        name = os.readlink(f"/proc/self/fd/{fd}")
        raise HostError(f'lock the directory "{name}"', error) from None


def prepare_lock(directory: str, exclusive: bool) -> FileLock:
    """Return the lock of the unpacked images in the data ``directory``, without taking it.

    A process that unpacks images for a pod takes a shared lock.  A process that removes unpacked
    images takes an exclusive lock.  Raises HostError if the directory ``locks`` cannot be created.
    """
    locks = f"{directory}/locks"
    try:
        make_directories(locks)
    except OSError as error:
        raise HostError(f'create the directory "{locks}"', error) from None
    return FileLock(f"{locks}/{PREPARE_LOCK}", exclusive=exclusive)


def make_directories(path: str) -> None:
    """Create the directory ``path`` and its missing parents, with mode 0750.

    Raises OSError if a directory cannot be created.
    """
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
