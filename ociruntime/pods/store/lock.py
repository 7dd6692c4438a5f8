"""Advisory locks with flock(2): a lock belongs to the open file description.

A pod is locked by its directory.  What has no directory of its own (``prepareLock``) has a key file
in ``locks/``, which may be unlinked while another process waits for its lock.
"""

from __future__ import annotations

import fcntl
import posix

from ociruntime.base.errors import HostError, PodError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

PREPARE_LOCK = "prepareLock"
_TRIES = 4  # to lock a key file that is unlinked each time
_DIRECTORY = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC | posix.O_NOFOLLOW


def open_directory(name: str | bytes, within: int | None = None) -> int:
    """Open a directory, to lock it or to open files below it; a descriptor.  Raises OSError."""
    return posix.open(name, _DIRECTORY, dir_fd=within)


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
        name = posix.readlink(f"/proc/self/fd/{fd}")
        raise HostError(f"lock the directory {name}", error) from None


class KeyLock:
    """``with KeyLock(directory, name, exclusive):`` - wait for the lock and hold it in the context.

    ``directory`` is created if needed (mode 0750).  Raises HostError, and PodError if the key file
    was replaced in each of several attempts.
    """

    __slots__ = ("_directory", "_exclusive", "_fd", "_name")

    def __init__(self, directory: str, name: str, *, exclusive: bool) -> None:
        self._directory = directory
        self._name = name
        self._exclusive = exclusive
        self._fd = -1

    def __enter__(self) -> KeyLock:
        path = f"{self._directory}/{self._name}"
        try:
            make_directories(self._directory)
            self._fd = _lock_key(path, fcntl.LOCK_EX if self._exclusive else fcntl.LOCK_SH)
        except OSError as error:
            raise HostError(f"lock {path}", error) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        fd, self._fd = self._fd, -1
        posix.close(fd)


def prepare_lock(directory: str, exclusive: bool) -> KeyLock:
    """Return a lock: shared to render images for a pod, exclusive to remove trees."""
    return KeyLock(f"{directory}/locks", PREPARE_LOCK, exclusive=exclusive)


def _lock_key(path: str, kind: int) -> int:
    for _ in range(_TRIES):
        fd = posix.open(path, posix.O_RDWR | posix.O_CREAT | posix.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, kind)
            if _is_at(fd, path):
                return fd
        except BaseException:
            posix.close(fd)
            raise
        posix.close(fd)
    raise PodError(f"lock {path}: the file was replaced repeatedly")


def _is_at(fd: int, path: str) -> bool:
    try:
        there = posix.stat(path)
    except FileNotFoundError:
        return False
    ours = posix.fstat(fd)
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def make_directories(path: str) -> None:
    """Create ``path`` and missing parents, mode 0750.  Raises OSError."""
    try:
        posix.mkdir(path, 0o750)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_directories(path.rpartition("/")[0])
        try:
            posix.mkdir(path, 0o750)
        except FileExistsError:
            pass
