"""Limits of an image's resources: a few kilobytes of archive can decompress to terabytes.

``limits.json`` in the configuration directories changes them: {"bytes": 1099511627776}.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ociruntime.base.errors import HostError, ImageError

MIB = 1 << 20
GIB = 1 << 30
FILE = "limits.json"
_NAME_COST = 100  # bytes of memory for a name in a set or dict, besides its characters
_MOST = 1 << 62
# Code that walks a tree recurses once per directory level.
_DEEPEST = 256
_ROOM_STEP = 64 * MIB
_RESERVED_PART = 100


@dataclass(frozen=True)
class Limits:
    """The limits of an image; the members of ``limits.json`` have the same names.

    ``bytes``: written for it, as blobs, unpacked archives and files of its tree (including holes).
    ``files``: members of an archive; entries of the whole tree, including implied directories.
    ``depth``: maximum nesting of directories.
    ``names``: bytes of memory for the names of a layer or archive.
    ``ratio``: maximum expansion of a stream of more than ``floor`` bytes, or of the holes of an
    archive's sparse files once they exceed that.
    ``dictionary``: bytes of memory for the dictionary (window) of xz or zstd.
    ``reserve``: bytes to keep free on the filesystem, but at most 1 % of it.
    """

    bytes: int = 256 * GIB
    files: int = 2_000_000
    depth: int = _DEEPEST
    names: int = GIB // 2
    ratio: int = 200
    floor: int = GIB // 2
    dictionary: int = 128 * MIB
    reserve: int = GIB


def read_limits(document: dict[str, Any], path: str) -> dict[str, int]:
    """Return the limits in a ``limits.json``, which is at ``path``.  Raises ImageError."""
    known = vars(Limits())
    for name, value in document.items():
        if name not in known:
            raise ImageError(f'{path}: unknown member "{name}"', ", ".join(known))
        least, most = int(name != "reserve"), _DEEPEST if name == "depth" else _MOST
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ImageError(f"{path}: {name}: must be a number from {least} to {most}")
    return document


class Budget:
    """The remaining limits while an image is fetched or unpacked.

    Everything that reads, unpacks or stores an image's content draws from a budget.  ``room``
    returns the free bytes and inodes of the filesystem; it is called again during long writes,
    because others write as well.  Every method raises ImageError if a limit is exceeded.
    """

    def __init__(self, limits: Limits, room: Callable[[], tuple[int, int]]) -> None:
        self.limits = limits
        self.room = room
        self.bytes = 0
        self.files = 0
        self.names = 0
        self.holes = 0
        self.source = 0  # size in bytes of the archive being read
        self._end = self._next_look = (
            0  # byte counts: where the room ends, and when to check it again
        )
        self._last_file = -1

    @classmethod
    def at(cls, place: str | int, limits: Limits) -> Budget:
        """Return the budget of an image for the file system at a path or a descriptor."""
        return cls(limits, lambda: _room(place, limits.reserve))

    def fresh(self) -> Budget:
        """Return an unused budget with the same limits, to read the same archive again."""
        return Budget(self.limits, self.room)

    def check_bytes(self, count: int) -> None:
        """Raise if ``count`` bytes would exceed the limit; call it before waiting for them."""
        if self.bytes + count > self.limits.bytes:
            raise _exceeded(f"more than {self.limits.bytes} bytes of files", "bytes")
        if self.bytes >= self._next_look:
            self._look()
        if self.bytes + count > self._end:
            free = max(self._end - self.bytes, 0)
            raise _exceeded(f"more bytes than the {free} that are free", "reserve")

    def take_bytes(self, count: int) -> None:
        """Draw bytes that are about to be written."""
        self.check_bytes(count)
        self.bytes += count

    def take_file(self) -> None:
        """Draw a member of an archive, or a file or directory about to be created."""
        if self._last_file < 0:
            self._look()
        self.files += 1
        if self.files > self.limits.files:
            raise _exceeded(f"more than {self.limits.files} files", "files")
        if self.files > self._last_file:
            raise _exceeded("more files than the file system has room for", "reserve")

    def check_depth(self, depth: int) -> None:
        """Check the nesting of directories."""
        if depth > self.limits.depth:
            raise _exceeded(f"directories nested more than {self.limits.depth} deep", "depth")

    def take_name(self, length: int) -> None:
        """Draw a name of ``length`` bytes, which is kept in memory until ``forget_names``."""
        self.names += length + _NAME_COST
        if self.names > self.limits.names:
            raise _exceeded(f"file names that take more than {self.limits.names} bytes", "names")

    def forget_names(self) -> None:
        """Return all drawn names at the end of a layer."""
        self.names = 0

    def check_ratio(self, plain: int, stored: int, what: str = "a layer") -> None:
        """Check that ``stored`` bytes of a stream may expand to ``plain`` bytes."""
        limits = self.limits
        if plain > limits.floor and plain > stored * limits.ratio:
            hint = f'a decompression bomb? The limits "ratio" and "floor" are set in {FILE}'
            raise ImageError(f"{what} decompresses {stored} bytes to {plain}", hint)

    def take_hole(self, count: int) -> None:
        """Draw zeros for a hole of a sparse file in the archive being read."""
        self.holes += count
        self.check_ratio(self.holes, self.source, "a sparse file of the archive")

    def _look(self) -> None:
        """Check the room again; everything drawn so far has been written."""
        free, inodes = self.room()
        self._end = self.bytes + free
        self._next_look = self.bytes + _ROOM_STEP
        if self._last_file < 0:
            self._last_file = self.files + inodes


def _exceeded(what: str, limit: str) -> ImageError:
    return ImageError(f"the image has {what}", f'the limit "{limit}" is set in {FILE}')


def _room(place: str | int, reserve: int) -> tuple[int, int]:
    try:
        found = os.statvfs(place)
    except OSError as error:
        raise HostError("read the free space of the filesystem", error) from None
    kept = min(reserve, found.f_blocks * found.f_frsize // _RESERVED_PART)
    # Some filesystems, such as btrfs, report no inodes.
    inodes = found.f_ffree - found.f_files // _RESERVED_PART if found.f_files else _MOST
    return max(found.f_bfree * found.f_frsize - kept, 0), max(inodes, 0)
