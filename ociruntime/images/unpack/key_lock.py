"""Named locks between processes: empty files locked with flock(2)."""

from __future__ import annotations

import fcntl
import os

from ociruntime.base.errors import HostError


class key_lock:  # noqa: N801 - as contextlib has them
    """A context that holds the lock file ``path``, created if needed.

    Its value is whether the lock was taken, which can be false without ``wait``.  Raises HostError.
    """

    __slots__ = ("_fd", "_kind", "_path", "_wait")

    def __init__(self, path: str, *, exclusive: bool, wait: bool = True) -> None:
        self._path = path
        self._kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        self._wait = wait
        self._fd = -1

    def __enter__(self) -> bool:
        self._fd = _take(self._path, self._kind, wait=self._wait)
        return self._fd >= 0

    def __exit__(self, *error: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def forget_lock(path: str) -> None:
    """Remove the file of an exclusively held lock; processes waiting for it create a new one."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _take(path: str, kind: int, *, wait: bool) -> int:
    try:
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, kind if wait else kind | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return -1
            # Its last holder may have removed it between our open and flock.
            if os.fstat(fd).st_nlink:
                return fd
            os.close(fd)
    except OSError as error:
        raise HostError(f'lock "{path}"', error) from None
