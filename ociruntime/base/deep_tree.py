"""Walk directory trees of any depth, even deeper than PATH_MAX and Python's recursion limit allow.

The walk returns to a parent directory by opening ``..``.  If another process moves a directory
during the walk, ``..`` may lead out of the tree.  The walk therefore records the device and inode
numbers of each directory on the way down, and compares them on the way up.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NAMES = 15  # number of names of 255 bytes that fit into PATH_MAX


class TreeCursor:
    """A position in a directory tree: an open directory, with the descriptor ``fd``.

    ``names`` is the path of that directory, as a list of names below the root of the tree.
    """

    __slots__ = ("_above", "_root", "fd", "names")

    def __init__(self, path: str) -> None:
        """Open ``path``, the root of the tree.  Raises OSError."""
        self._root = os.open(path, _DIRECTORY)
        self.fd = os.dup(self._root)
        self.names: list[str] = []
        self._above: list[tuple[int, int]] = []  # device and inode of each parent directory

    def __enter__(self) -> TreeCursor:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._root)
        os.close(self.fd)

    def path(self, name: str) -> str:
        """Return a short path to the entry ``name``, valid until the next ``down`` or ``up``."""
        return f"/proc/self/fd/{self.fd}/{name}"

    def down(self, name: str) -> None:
        """Enter the subdirectory ``name``.  Raises OSError, also for a symbolic link."""
        above = _identity(self.fd)
        self._go(name)
        self.names.append(name)
        self._above.append(above)

    def up(self) -> None:
        """Go to the parent directory.  Raises OSError, with ESTALE if this directory was moved."""
        self._go("..")
        name = self.names.pop()
        if _identity(self.fd) != self._above.pop():
            raise OSError(errno.ESTALE, "directory was moved during the walk", name)

    def _go(self, name: str) -> None:
        fd = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self.fd)
        os.close(self.fd)
        self.fd = fd

    def reach(self, names: list[str]) -> int:
        """Open a directory of the tree, and return its descriptor; the position does not change.

        ``names`` is its path, as a list of names below the root of the tree.  Raises OSError.
        """
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
    """Open the regular file at ``path`` for reading, unless it was replaced.

    ``status`` is an earlier stat result of the file.  The function compares the file with this
    result before opening it for reading, because opening a FIFO in its place could block, and
    opening a device could have side effects.  Raises OSError, with ESTALE if the file was replaced.
    """
    path_fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        actual = os.fstat(path_fd)
        if not (os.path.samestat(actual, status) and stat.S_ISREG(actual.st_mode)):
            raise OSError(errno.ESTALE, "file was replaced during the walk")
        return os.open(f"/proc/self/fd/{path_fd}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(path_fd)


def _allow() -> None:
    pass


class TreeEntry:
    """A file or directory that ``walk`` yields.

    ``cursor`` is positioned at the directory that contains the entry, ``name`` is the entry's name
    in that directory, and ``status`` is its stat result.  ``walk`` yields a directory twice: before
    its content and, with ``leaving`` set, after it.
    """

    __slots__ = ("cursor", "leaving", "name", "status")

    def __init__(
        self, cursor: TreeCursor, name: str, status: os.stat_result, *, leaving: bool
    ) -> None:
        self.cursor = cursor
        self.name = name
        self.status = status
        self.leaving = leaving

    @property
    def path(self) -> str:
        """A path of the entry for system calls, valid until ``walk`` yields the next entry."""
        return self.cursor.path(self.name)

    @property
    def inside(self) -> str:
        """The entry's path relative to the root of the walk, without a leading slash."""
        return "/".join([*self.cursor.names, self.name])


def walk(
    root: str, count: Callable[[], None] = _allow, *, filesystem: int | None = None
) -> Iterator[TreeEntry]:
    """Yield all entries below ``root``, sorted; a directory both before and after its content.

    Does not follow symbolic links.  Calls ``count`` for each entry that it reads; ``count`` may
    raise an exception to end the walk.  If ``filesystem`` (a device number) is given, yields
    directories on other filesystems without entering them.  Raises OSError.
    """
    with TreeCursor(root) as cursor:
        pending = [_entries(cursor.fd, count)]
        parents: list[tuple[str, os.stat_result]] = []
        while pending:
            if pending[-1]:
                name, status = pending[-1].pop()
                yield TreeEntry(cursor, name, status, leaving=False)
                if stat.S_ISDIR(status.st_mode) and filesystem in (None, status.st_dev):
                    parents.append((name, status))
                    cursor.down(name)
                    pending.append(_entries(cursor.fd, count))
                continue
            pending.pop()
            if parents:
                name, status = parents.pop()
                cursor.up()
                yield TreeEntry(cursor, name, status, leaving=True)


def disk_usage(root: str) -> int:
    """Return the disk usage of the tree at ``root`` in bytes.

    Does not include filesystems mounted in the tree.  Counts a file with several hard links once.
    If a directory cannot be read, returns the disk usage of the files counted so far.
    """
    total = 0
    seen: set[int] = set()
    try:
        for entry in walk(root, filesystem=os.stat(root).st_dev):
            status = entry.status
            if entry.leaving:
                continue
            if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                if status.st_ino in seen:
                    continue
                seen.add(status.st_ino)
            total += status.st_blocks * 512
    except OSError:
        pass  # the tree is being changed or removed by another process: return the sum so far
    return total


def _entries(fd: int, count: Callable[[], None]) -> list[tuple[str, os.stat_result]]:
    """Return (name, stat result) of each entry of a directory, sorted by name in reverse.

    The caller takes the entries from the end of the list, and thus in the order of their names.
    ``fd`` is the open directory; ``count`` is called once for each entry.
    """
    with os.scandir(fd) as entries:
        pairs = []
        for entry in entries:
            count()
            pairs.append((entry.name, entry.stat(follow_symlinks=False)))
    return sorted(pairs, key=lambda one: os.fsencode(one[0]), reverse=True)
