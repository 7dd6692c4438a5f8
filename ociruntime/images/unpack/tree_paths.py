"""Resolve paths inside a directory tree with descriptors, so that no link leads outside.

Symbolic links among the parents of a file are followed as if the tree were the root directory.
Images rely on it: in most images ``lib`` is a link to ``usr/lib``, and later layers have files
below ``lib``.  The last component of a path is never followed.
"""

from __future__ import annotations

import errno
import os

from ociruntime.base.errors import ImageError
from ociruntime.images.model.image_limits import Budget
from ociruntime.images.tar.tar_header import LONGEST_NAME

MOST_LINKS = 40
MOST_LAYER_STEPS = 32_000_000  # path components in a layer: 16 for each of 2,000,000 files
MOST_STEPS = 1024  # components of a path after following links, which can add thousands
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Inside:
    """Resolve paths in the tree whose root directory is ``root`` (a descriptor).

    No other process may change the tree.  The last resolved directory stays open, because archives
    list files directory by directory.  The caller must not remove the open directory: before
    removing a directory, it must resolve the parent.  ``budget`` limits the depth and the number of
    created directories.
    """

    def __init__(self, root: int, budget: Budget) -> None:
        self.root = root
        self.budget = budget
        self._parts: list[bytes] | None = None
        self._fd = -1
        self._path = b""
        self._steps = 0

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._parts, self._fd = None, -1

    def directory(self, parts: list[bytes], made: Made | None = None) -> tuple[int, bytes]:
        """Resolve the path ``parts`` of a directory; return (descriptor, path from the root).

        The returned path contains no links; it is b"" for the root.  The descriptor is valid until
        the next call.  With ``made``, creates missing directories (mode 0755) and adds them to
        ``made``.  Raises FileNotFoundError if a directory is missing, ImageError if a component is
        not a directory or a limit is exceeded.
        """
        if parts == self._parts:
            return self._fd, self._path
        self.close()
        if self._steps > MOST_LAYER_STEPS:
            message = f"the layer's paths have more than {MOST_LAYER_STEPS} components in total"
            raise ImageError(message)
        walk = _Walk(self.root, self.budget, made)
        try:
            walk.go(parts)
            self._fd = walk.fds.pop()
        finally:
            walk.close()
            self._steps += walk.steps
        self._parts, self._path = list(parts), b"/".join(walk.names)
        return self._fd, self._path


class _Walk:
    """The resolution of one path inside a tree, component by component.

    ``fds`` contains descriptors of the directories on the path so far, beginning with the root;
    ``names`` contains the names of these directories, without the root.
    """

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
                path = _shown(b"/".join(parts))
                raise ImageError(f'more than {MOST_STEPS} components in the path "{path}"')
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
        """Open the directory ``part`` and return None; for a symbolic link, return its target.

        If ``part`` does not exist, creates it or raises FileNotFoundError (see
        ``Inside.directory``).  Raises ImageError for any other type of file.
        """
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
            raise ImageError(f'too many symbolic links in the path "{shown}"')
        try:
            return os.readlink(part, dir_fd=self.fds[-1])
        except OSError:
            message = f'"{shown}", the parent of a file in the layer, is not a directory'
            raise ImageError(message) from None


class Made:
    """A set of the paths that a layer has created, including all parents of these paths.

    ``budget`` limits the size of the set.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.paths: set[bytes] = set()

    def __contains__(self, path: bytes) -> bool:
        return path in self.paths

    def add(self, path: bytes) -> None:
        """Add ``path`` and its parents.  Raises ImageError if the budget is exceeded."""
        while path and path not in self.paths:
            self.budget.take_name(len(path))
            self.paths.add(path)
            path = path.rpartition(b"/")[0]


def split_name(name: bytes) -> list[bytes]:
    """Split the name of a tar member into components; return [] for the root.

    Ignores a leading slash.  Raises ImageError if the name contains ``..`` or exceeds PATH_MAX.
    """
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise ImageError(f'"{_shown(name)}" in the layer: ".." is not allowed')
    if len(name) > LONGEST_NAME:
        message = f"the name is too long: {len(name)} bytes"
        hint = f"the limit is {LONGEST_NAME}"
        raise ImageError(f'"{_shown(name)}..." in the layer: {message}', hint)
    return parts


def _shown(name: bytes) -> str:
    """Return the first 200 bytes of a member's name as text for an error message."""
    return name[:200].decode("utf-8", "backslashreplace")
