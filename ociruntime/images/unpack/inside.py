"""Directories of a tree, reached from its root by descriptors: no name ever leads outside.

Symbolic links among the parents of a file are followed as a process inside would follow them,
with the tree as its root: images rely on that (``lib`` is a link to ``usr/lib`` in most, and
later layers put files below ``lib``).  The last part of a name is never followed.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from ociruntime.base.errors import ImageError

if TYPE_CHECKING:
    from ociruntime.images.model.limits import Budget

MOST_LINKS = 40
MOST_LAYER_STEPS = 32_000_000  # half a minute; the 2,000,000 files of a layer may take 16 each
MOST_STEPS = 1024  # the texts of links can lead down and up again, thousands of times for each file
LONGEST_NAME = 4095  # bytes: PATH_MAX, without the one at its end
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Inside:
    """The tree whose root is the descriptor ``root``; nobody else changes it meanwhile.

    A place is the path of a directory from the root without links, empty for the root itself.
    The last directory stays open: the files of an archive come directory by directory.  What
    is removed meanwhile is in it, or one has asked for another directory to remove it there.
    ``budget`` says how deep it may go, and pays for each directory that is made on the way.
    """

    def __init__(self, root: int, budget: Budget) -> None:
        self.root = root
        self.budget = budget
        self._parts: list[bytes] | None = None
        self._fd = -1
        self._place = b""
        self._steps = 0

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._parts, self._fd = None, -1

    def directory(self, parts: list[bytes], made: Made | None = None) -> tuple[int, bytes]:
        """Its descriptor, which stays ours, and its place.

        With ``made`` what is missing is made, mode 0755, and added there.  Raises
        FileNotFoundError, or ImageError if there is no way through, or one beyond the limits.
        """
        if parts == self._parts:
            return self._fd, self._place
        self.close()
        if self._steps > MOST_LAYER_STEPS:
            raise ImageError(f"the layer takes more than {MOST_LAYER_STEPS} steps to its files")
        walk = _Walk(self.root, self.budget, made)
        try:
            walk.go(parts)
            self._fd = walk.fds.pop()
        finally:
            walk.close()
            self._steps += walk.steps
        self._parts, self._place = list(parts), b"/".join(walk.names)
        return self._fd, self._place


class _Walk:
    """From the root downwards; ``fds`` has one more descriptor than ``names`` has parts."""

    def __init__(self, root: int, budget: Budget, made: Made | None) -> None:
        self.root = root
        self.budget = budget
        self.made = made
        self.fds = [os.dup(root)]
        self.names: list[bytes] = []
        self.links = self.steps = 0

    def close(self) -> None:
        while self.fds:
            os.close(self.fds.pop())

    def go(self, parts: list[bytes]) -> None:
        pending = parts[::-1]
        while pending:
            part = pending.pop()
            if part in (b"", b"."):
                continue
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise ImageError(
                    f"the layer has links that take more than {MOST_STEPS} steps to a file"
                )
            if part == b"..":
                if self.names:
                    self.names.pop()
                    os.close(self.fds.pop())
                continue
            target = self._enter(part)
            if target is not None:
                if target.startswith(b"/"):
                    self.close()
                    self.fds, self.names = [os.dup(self.root)], []
                pending += target.split(b"/")[::-1]

    def _enter(self, part: bytes) -> bytes | None:
        """Goes into ``part``; if that is a symbolic link, returns where it points instead."""
        here = self.fds[-1]
        try:
            fd = os.open(part, _DIRECTORY, dir_fd=here)
        except FileNotFoundError:
            if self.made is None:
                raise
            self.budget.take_file()
            os.mkdir(part, 0o755, dir_fd=here)
            fd = os.open(part, _DIRECTORY, dir_fd=here)
            os.fchmod(fd, 0o755)
            self.made.add(b"/".join([*self.names, part]))
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            return self._link(part)
        self.fds.append(fd)
        self.names.append(part)
        self.budget.check_depth(len(self.names))
        return None

    def _link(self, part: bytes) -> bytes:
        shown = b"/".join([*self.names, part]).decode("utf-8", "backslashreplace")
        self.links += 1
        if self.links > MOST_LINKS:
            raise ImageError(f'too many symbolic links on the way to "{shown}"')
        try:
            return os.readlink(part, dir_fd=self.fds[-1])
        except OSError:
            raise ImageError(f'"{shown}" is no directory, and the layer has a file in it') from None


class Made:
    """The paths of what a layer has made, and of the directories that are on the way to it.

    ``budget`` pays for the memory that they take.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.paths: set[bytes] = set()

    def __contains__(self, path: bytes) -> bool:
        return path in self.paths

    def add(self, path: bytes) -> None:
        """Raises ImageError."""
        while path and path not in self.paths:
            self.budget.take_name(len(path))
            self.paths.add(path)
            path = path.rpartition(b"/")[0]


def split_name(name: bytes) -> list[bytes]:
    """The parts of a file's name in an archive, none for the root.

    A slash at the beginning means the root of the tree.  Raises ImageError for a name that
    leads upwards, or that no program could use.
    """
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise ImageError(f'the layer has the name "{_shown(name)}", which leads upwards')
    if len(name) > LONGEST_NAME:
        begin = _shown(name)
        raise ImageError(
            f'the layer has a name of {len(name)} bytes: "{begin}"', f"up to {LONGEST_NAME}"
        )
    return parts


def _shown(name: bytes) -> str:
    """The beginning of it, for a message."""
    return name[:200].decode("utf-8", "backslashreplace")
