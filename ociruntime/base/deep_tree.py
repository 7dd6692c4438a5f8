"""Walk directory trees of any depth, beyond PATH_MAX and the recursion limit.

Going up opens ``..``.  Programs may move directories meanwhile, so that ``..`` could lead out of
the tree; therefore device and inode are compared with those seen on the way down.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NAMES = 15  # of 255 bytes, in one path


class Place:
    """An open directory and the ``names`` that lead to it from the one at ``path``."""

    __slots__ = ("_above", "_root", "fd", "names")

    def __init__(self, path: str) -> None:
        """Open the directory at ``path``.  Raises OSError."""
        self._root = os.open(path, _DIRECTORY)
        self.fd = os.dup(self._root)
        self.names: list[str] = []
        self._above: list[tuple[int, int]] = []  # device and inode of each parent directory

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._root)
        os.close(self.fd)

    def path(self, name: str) -> str:
        """Return a short path of ``name`` in here, valid until the next ``down`` or ``up``."""
        return f"/proc/self/fd/{self.fd}/{name}"

    def down(self, name: str) -> None:
        """Enter the subdirectory ``name``.  Raises OSError, also for a symbolic link."""
        above = _identity(self.fd)
        self._go(name)
        self.names.append(name)
        self._above.append(above)

    def up(self) -> None:
        """Go to the parent.  Raises OSError, also if this directory was moved elsewhere."""
        self._go("..")
        name = self.names.pop()
        if _identity(self.fd) != self._above.pop():
            raise OSError(errno.ESTALE, "directory was moved during the walk", name)

    def _go(self, name: str) -> None:
        fd = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self.fd)
        os.close(self.fd)
        self.fd = fd

    def reach(self, names: list[str]) -> int:
        """Return a descriptor of the directory at ``names`` from the root.  Raises OSError."""
        fd = os.dup(self._root)
        for at in range(0, len(names), _NAMES):
            path = "/".join(names[at : at + _NAMES])
            try:
                step = os.open(path, _DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            finally:
                os.close(fd)
            fd = step
        return fd


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def open_regular(path: str, status: os.stat_result) -> int:
    """Open the regular file at ``path``, checking that it is the one of ``status``.

    It is checked before it is opened for reading: a FIFO that has replaced it would block us, and
    opening a device can make it act.  Raises OSError.
    """
    place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(place)
        if not (os.path.samestat(found, status) and stat.S_ISREG(found.st_mode)):
            raise OSError(errno.ESTALE, "file was replaced during the walk")
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(place)


def _allow() -> None:
    pass


class Found:
    """An entry found by ``walk``: ``name`` in the directory that ``place`` has open."""

    __slots__ = ("leaving", "name", "place", "status")

    def __init__(self, place: Place, name: str, status: os.stat_result, *, leaving: bool) -> None:
        self.place = place
        self.name = name
        self.status = status
        self.leaving = leaving

    @property
    def path(self) -> str:
        """Return a path to open it by, valid until the next entry."""
        return self.place.path(self.name)

    @property
    def inside(self) -> str:
        """Return its path relative to the root of the walk, without a leading slash."""
        return "/".join([*self.place.names, self.name])


def walk(
    root: str, count: Callable[[], None] = _allow, *, filesystem: int | None = None
) -> Iterator[Found]:
    """Yield all entries below ``root``, sorted; directories both before and after their content.

    Symbolic links are not followed.  ``count`` is called for each entry while a directory is read,
    and may raise to end the walk.  With ``filesystem``, a device number, directories of other
    filesystems are yielded, but not entered.  Raises OSError.
    """
    with Place(root) as place:
        pending = [_entries(place.fd, count)]
        parents: list[tuple[str, os.stat_result]] = []
        while pending:
            if pending[-1]:
                name, status = pending[-1].pop()
                yield Found(place, name, status, leaving=False)
                if stat.S_ISDIR(status.st_mode) and filesystem in (None, status.st_dev):
                    parents.append((name, status))
                    place.down(name)
                    pending.append(_entries(place.fd, count))
                continue
            pending.pop()
            if parents:
                name, status = parents.pop()
                place.up()
                yield Found(place, name, status, leaving=True)


def disk_usage(root: str) -> int:
    """Return the bytes on disk of a tree, without other filesystems; 0 if it cannot be read.

    A file with several names is counted once.
    """
    total = 0
    seen: set[int] = set()
    try:
        for found in walk(root, filesystem=os.stat(root).st_dev):
            status = found.status
            if found.leaving:
                continue
            if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                if status.st_ino in seen:
                    continue
                seen.add(status.st_ino)
            total += status.st_blocks * 512
    except OSError:
        pass  # it changes, or is being removed by another process: what was counted must do
    return total


def _entries(fd: int, count: Callable[[], None]) -> list[tuple[str, os.stat_result]]:
    """Return the entries in reverse order, to be popped from the end."""
    with os.scandir(fd) as entries:
        found = []
        for entry in entries:
            count()
            found.append((entry.name, entry.stat(follow_symlinks=False)))
    return sorted(found, key=lambda one: os.fsencode(one[0]), reverse=True)
