"""Locks with names, between processes: files of no content that are locked with flock(2)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from ociruntime.errors import HostError


@contextmanager
def key_lock(path: str, *, exclusive: bool, wait: bool = True) -> Iterator[bool]:
    """Holds the lock ``path``, made if it is not there; whether it does, without ``wait``.

    Raises HostError.
    """
    fd = _take(path, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH, wait=wait)
    try:
        yield fd >= 0
    finally:
        if fd >= 0:
            os.close(fd)


def forget_lock(path: str) -> None:
    """Removes the file of a lock that is held exclusively: who waits for it makes a new one."""
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
            # Before it was locked its last holder may have removed it.
            if os.fstat(fd).st_nlink:
                return fd
            os.close(fd)
    except OSError as error:
        raise HostError(f'lock "{path}"', error) from None
