"""File locks between processes, using flock(2).

A lock belongs to the open file description: descriptors duplicated by fork(2) or dup(2) share it.
Closing the last of them releases the lock.
"""

from __future__ import annotations

import errno
import fcntl
import posix

from ociruntime.base.errors import HostError

PAUSE = 0.005  # seconds between two tries
TRIES = 100  # attempts to lock a file that is replaced each time


def lock_within(fd: int, seconds: float) -> bool:
    """Lock the open file ``fd`` exclusively; return False if that takes more than ``seconds``.

    Raises OSError.
    """
    from time import monotonic, sleep

    deadline = monotonic() + seconds
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if monotonic() >= deadline:
                return False
            sleep(PAUSE)


class FileLock:
    """A context manager that locks the file ``path``, which it creates if missing (mode 0600).

    Entering the context waits for the lock and returns True.  Without ``wait``, it returns False at
    once if another process holds the lock.  A process that holds the lock exclusively may unlink
    the file; processes that wait for the lock then create and lock a new file at ``path``.  Raises
    HostError.
    """

    __slots__ = ("_fd", "_kind", "_path", "_wait")

    def __init__(self, path: str, *, exclusive: bool, wait: bool = True) -> None:
        self._path = path
        self._kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        self._wait = wait
        self._fd = -1

    def __enter__(self) -> bool:
        kind = self._kind if self._wait else self._kind | fcntl.LOCK_NB
        try:
            self._fd = _lock_file(self._path, kind)
        except OSError as error:
            raise HostError(f'lock "{self._path}"', error) from None
        return self._fd >= 0

    def __exit__(self, *error: object) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            posix.close(fd)


def forget_lock(path: str) -> None:
    """Remove the lock file ``path``, on which the caller holds an exclusive lock.

    Processes that wait for the lock create a new file.  Raises OSError.
    """
    try:
        posix.unlink(path)
    except FileNotFoundError:
        pass


def _lock_file(path: str, kind: int) -> int:
    """Lock the file ``path``; return its descriptor.

    ``kind`` is an operation of flock(2).  With LOCK_NB, returns -1 if another process holds the
    lock.  Raises OSError.
    """
    flags = posix.O_RDWR | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_CLOEXEC
    for _ in range(TRIES):
        fd = posix.open(path, flags, 0o600)
        try:
            fcntl.flock(fd, kind)
            if _is_at(fd, path):
                return fd
        except BlockingIOError:
            posix.close(fd)
            return -1
        except BaseException:
            posix.close(fd)
            raise
        posix.close(fd)
    raise OSError(errno.ESTALE, "the lock file was replaced repeatedly")


def _is_at(fd: int, path: str) -> bool:
    """Return whether ``path`` still refers to the open file ``fd``."""
    try:
        there = posix.stat(path)
    except FileNotFoundError:
        return False
    ours = posix.fstat(fd)
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
