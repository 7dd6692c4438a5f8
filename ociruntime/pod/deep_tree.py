"""Going through trees of any depth: deeper than paths can be long, or functions call each other.

A tree is to stay as it is meanwhile: the way up is ``..``.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NAMES = 15  # of 255 bytes, in one path


class Place:
    """A directory, with the way to it: ``names`` from the one at ``path`` on."""

    __slots__ = ("_root", "fd", "names")

    def __init__(self, path: str) -> None:
        """Raises OSError."""
        self._root = os.open(path, _DIRECTORY)
        self.fd = os.dup(self._root)
        self.names: list[str] = []

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
        self._go(name)
        self.names.append(name)

    def up(self) -> None:
        """Raises OSError."""
        self._go("..")
        self.names.pop()

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
