"""Going through trees of any depth: deeper than paths can be long, or functions call each other.

The way up is ``..``.  Where programs may move directories meanwhile, that can be another one, and
in the end a directory that the tree is in: so each is compared with the one on the way down.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NAMES = 15  # of 255 bytes, in one path


class Place:
    """A directory, with the way to it: ``names`` from the one at ``path`` on."""

    __slots__ = ("_above", "_root", "fd", "names")

    def __init__(self, path: str) -> None:
        """Raises OSError."""
        self._root = os.open(path, _DIRECTORY)
        self.fd = os.dup(self._root)
        self.names: list[str] = []
        self._above: list[tuple[int, int]] = []  # device and inode of each directory on the way

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._root)
        os.close(self.fd)

    def path(self, name: str) -> str:
        """A short one of what is called ``name`` here, for as long as this is the place."""
        return f"/proc/self/fd/{self.fd}/{name}"

    def down(self, name: str) -> None:
        """Raises OSError, also for a symbolic link."""
        above = _identity(self.fd)
        self._go(name)
        self.names.append(name)
        self._above.append(above)

    def up(self) -> None:
        """Raises OSError, also if the directory was moved into another one."""
        self._go("..")
        name = self.names.pop()
        if _identity(self.fd) != self._above.pop():
            raise OSError(errno.ESTALE, "it was moved meanwhile", name)

    def _go(self, name: str) -> None:
        fd = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self.fd)
        os.close(self.fd)
        self.fd = fd

    def reach(self, names: list[str]) -> int:
        """A descriptor of the directory to which these names lead.  Raises OSError."""
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
    """Open the regular file at ``path``, which was found with ``status``: that one and no other.

    A pipe that is there by now is not waited for.  Raises OSError.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    if not os.path.samestat(os.fstat(fd), status):
        os.close(fd)
        raise OSError(errno.ESTALE, "it was replaced meanwhile")
    return fd


class Found:
    """Something called ``name`` in the directory that ``place`` is right now."""

    __slots__ = ("leaving", "name", "place", "status")

    def __init__(self, place: Place, name: str, status: os.stat_result, *, leaving: bool) -> None:
        self.place = place
        self.name = name
        self.status = status
        self.leaving = leaving

    @property
    def path(self) -> str:
        """To open it by, until the next one is found."""
        return self.place.path(self.name)

    @property
    def inside(self) -> str:
        """Its path in the tree, without a slash before it."""
        return "/".join([*self.place.names, self.name])


def walk(root: str) -> Iterator[Found]:
    """All that is in the directory at ``root``, by name; a directory before and after its own.

    Symbolic links are not followed.  Raises OSError.
    """
    with Place(root) as place:
        pending = [_entries(place.fd)]
        parents: list[tuple[str, os.stat_result]] = []
        while pending:
            if pending[-1]:
                name, status = pending[-1].pop()
                yield Found(place, name, status, leaving=False)
                if stat.S_ISDIR(status.st_mode):
                    parents.append((name, status))
                    place.down(name)
                    pending.append(_entries(place.fd))
                continue
            pending.pop()
            if parents:
                name, status = parents.pop()
                place.up()
                yield Found(place, name, status, leaving=True)


def _entries(fd: int) -> list[tuple[str, os.stat_result]]:
    """The last one first."""
    with os.scandir(fd) as entries:
        found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    return sorted(found, key=lambda one: one[0], reverse=True)
