"""A digest of everything in a tree that matters to programs that run in it.

It covers paths, types, modes, owners, device numbers, links, sizes, contents and the extended
attributes that images can have; not times, which a mount may change.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ociruntime.base.errors import HostError
from ociruntime.images.model.progress import Progress, silent
from ociruntime.images.tar.attributes import refusal

if TYPE_CHECKING:
    from hashlib import _Hash

_CHUNK = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class TreeHash:
    """The digest of a tree; ``entries`` counts the files, ``size`` their bytes."""

    digest: str
    entries: int
    size: int


def hash_tree(path: str, progress: Progress = silent, expected: int = 0) -> TreeHash:
    """Hash the directory ``path``, reporting bytes of ``expected``.  Raises HostError."""
    walk = _Walk(progress, expected)
    try:
        root = os.open(path, _DIRECTORY)
        try:
            walk.entry(b"", os.fstat(root), [], _attributes(root))
            walk.directory(root, b"")
        finally:
            os.close(root)
    except OSError as error:
        raise HostError(f'read the tree "{path}"', error) from None
    return TreeHash(f"sha256:{walk.hash.hexdigest()}", walk.entries, walk.size)


class _Walk:
    def __init__(self, progress: Progress, expected: int) -> None:
        self.progress = progress
        self.expected = expected
        self.hash: _Hash = hashlib.sha256()
        self.contents: dict[tuple[int, int], bytes] = {}  # digests of files with several links
        self.entries = 0
        self.size = 0

    def directory(self, fd: int, place: bytes) -> None:
        # Through /proc, because listing by path returns names as bytes; there may be millions.
        for name in sorted(os.listdir(b"/proc/self/fd/%d" % fd)):
            path = place + b"/" + name
            facts = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISDIR(facts.st_mode):
                below = os.open(name, _DIRECTORY, dir_fd=fd)
                try:
                    self.entry(path, facts, [], _attributes(below))
                    self.directory(below, path)
                finally:
                    os.close(below)
            elif stat.S_ISREG(facts.st_mode):
                file = os.open(name, _FILE, dir_fd=fd)
                try:
                    self.entry(path, facts, [self._content(file, facts)], _attributes(file))
                finally:
                    os.close(file)
            else:
                link = stat.S_ISLNK(facts.st_mode)
                more = os.readlink(name, dir_fd=fd) if link else b"%d" % facts.st_rdev
                self.entry(path, facts, [more], _attributes(b"/proc/self/fd/%d/%s" % (fd, name)))

    def entry(
        self, path: bytes, facts: os.stat_result, more: list[bytes], attributes: list[bytes]
    ) -> None:
        """Hash each field with its length as prefix, so that fields cannot be confused."""
        self.entries += 1
        fields = [path, b"%o %d %d" % (facts.st_mode, facts.st_uid, facts.st_gid)]
        if stat.S_ISREG(facts.st_mode):
            fields.append(b"%d" % facts.st_size)
        for field in (*fields, *more, b"%d" % len(attributes), *attributes):
            self.hash.update(b"%d:%s," % (len(field), field))

    def _content(self, file: int, facts: os.stat_result) -> bytes:
        key = (facts.st_dev, facts.st_ino)
        if known := self.contents.get(key):
            return known
        found = hashlib.sha256()
        while chunk := os.read(file, _CHUNK):
            found.update(chunk)
            self.size += len(chunk)
            self.progress("reading the tree", self.size, self.expected)
        if facts.st_nlink > 1:
            self.contents[key] = found.digest()
        return found.digest()


def _attributes(file: int | bytes) -> list[bytes]:
    """Return names and values alternately, sorted by name."""
    follow = isinstance(file, int)
    try:
        names = sorted(os.listxattr(file, follow_symlinks=follow))
    except OSError:
        return []  # not supported by this filesystem or type of file
    found = []
    for name in names:
        if not refusal(name):
            found += [os.fsencode(name), os.getxattr(file, name, follow_symlinks=follow)]
    return found
