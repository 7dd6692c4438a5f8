"""Limits on an image's disk space, files and memory: a small archive can decompress to terabytes.

A file ``limits.json`` in a configuration directory, such as {"bytes": 1099511627776}, changes the
limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ociruntime.base.errors import HostError, ImageError
from ociruntime.base.files import statvfs

MIB = 1 << 20
GIB = 1 << 30
FILE = "limits.json"
_NAME_COST = 100  # bytes of memory for a name in a set or dict, in addition to its characters
MOST = 1 << 62  # the largest possible limit, which is never reached
_DEEPEST = 256  # code that walks a tree recurses once per directory level
_CHECK_INTERVAL = 64 * MIB  # bytes written between two checks of the free space
_RESERVED_PART = 100  # keep at most 1/100 of the filesystem free


@dataclass(frozen=True)
class Limits:
    """The limits for one image; the members of ``limits.json`` have the same names.

    ``bytes``: maximum total size of its blobs, decompressed archives and files, including holes.
    ``files``: maximum number of members of an archive, and of files and directories in an unpacked
    image.
    ``depth``: maximum nesting of directories.
    ``names``: maximum memory in bytes for the file names of a layer or archive.
    ``ratio``: maximum decompressed bytes per compressed byte, and maximum bytes of holes in sparse
    files per byte of the archive.
    ``floor``: number of decompressed bytes, or bytes of holes, up to which ``ratio`` is ignored.
    ``dictionary``: maximum memory in bytes for the dictionary (window) of xz or zstd.
    ``reserve``: bytes to keep free on the filesystem, or 1 % of its size if that is less.
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
    """Return ``document``, the content of the ``limits.json`` at ``path``, if it is valid.

    Raises ImageError otherwise.
    """
    defaults = vars(Limits())
    for name, value in document.items():
        if name not in defaults:
            supported = ", ".join(defaults)
            raise ImageError(f'read "{path}": unknown member "{name}"', f"supported: {supported}")
        least, most = int(name != "reserve"), _DEEPEST if name == "depth" else MOST
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ImageError(f'read "{path}": {name} must be an integer from {least} to {most}')
    return document


class Budget:
    """Count the resources that one image uses while it is fetched or unpacked, and limit them.

    Callers count bytes, files and names before they write or store them.  ``room()`` returns
    (free bytes, free inodes) of the filesystem.  It is called repeatedly during long writes,
    because other processes use the disk too.  Every method that counts or checks raises ImageError
    if a limit is exceeded.
    """

    def __init__(self, limits: Limits, room: Callable[[], tuple[int, int]]) -> None:
        self.limits = limits
        self.room = room
        self.bytes = 0
        self.files = 0
        self.names = 0
        self.holes = 0
        self.source = 0  # size in bytes of the archive being read
        # The filesystem is full when ``bytes`` reaches _end, or ``files`` exceeds _last_file.  The
        # free space is checked again when ``bytes`` reaches _next_check.
        self._end = self._next_check = 0
        self._last_file = -1

    @classmethod
    def at(cls, path: str | int, limits: Limits) -> Budget:
        """Return a new budget for writing to the filesystem of ``path``, a path or descriptor."""
        return cls(limits, lambda: _room(path, limits.reserve))

    def fresh(self) -> Budget:
        """Return an unused budget with the same limits, for reading the same archive again."""
        return Budget(self.limits, self.room)

    def check_bytes(self, count: int) -> None:
        """Raise ImageError if writing ``count`` more bytes would exceed a limit."""
        if self.bytes + count > self.limits.bytes:
            raise _exceeded(f"more than {self.limits.bytes} bytes of files", "bytes")
        if self.bytes >= self._next_check:
            self._check_room()
        if self.bytes + count > self._end:
            free = max(self._end - self.bytes, 0)
            raise _exceeded(f"more bytes than the {free} that are free on the disk", "reserve")

    def check_room(self, count: int, what: str) -> None:
        """Raise ImageError if ``count`` more bytes would exceed a limit or the free disk space.

        Does not count the bytes.  ``what`` describes them in the error message.
        """
        if self.bytes + count > self.limits.bytes:
            raise _exceeded(f"more than {self.limits.bytes} bytes of files", "bytes")
        free, _ = self.room()
        if count > free:
            hint = (
                f'free disk space, for example with ocipod image gc, or lower "reserve" in {FILE}'
            )
            raise ImageError(f"{what} need {count} bytes, but the disk has only {free} free", hint)

    def take_bytes(self, count: int) -> None:
        """Count ``count`` bytes that are about to be written.

        Raises ImageError if they would exceed a limit.
        """
        self.check_bytes(count)
        self.bytes += count

    def take_file(self) -> None:
        """Count a member of an archive, or a file or directory that is about to be created."""
        if self._last_file < 0:
            self._check_room()
        self.files += 1
        if self.files > self.limits.files:
            raise _exceeded(f"more than {self.limits.files} files", "files")
        if self.files > self._last_file:
            raise _exceeded("more files than the filesystem has free inodes", "reserve")

    def check_depth(self, depth: int) -> None:
        """Raise ImageError if a directory at ``depth`` is too deep; the root has depth 0."""
        if depth > self.limits.depth:
            raise _exceeded(f"directories nested more than {self.limits.depth} deep", "depth")

    def take_name(self, length: int) -> None:
        """Count a name of ``length`` bytes that is kept in memory until ``forget_names``."""
        self.names += length + _NAME_COST
        if self.names > self.limits.names:
            limit = self.limits.names
            raise _exceeded(f"file names that take more than {limit} bytes of memory", "names")

    def forget_names(self) -> None:
        """Reset the count of names kept in memory, at the end of a layer."""
        self.names = 0

    def check_ratio(self, plain: int, stored: int, what: str = "a layer") -> None:
        """Raise ImageError if ``plain`` and ``stored`` suggest a decompression bomb.

        ``stored`` is the number of compressed bytes that have been read, ``plain`` the number of
        bytes after decompression.  ``what`` names the compressed stream in the error message.
        """
        limits = self.limits
        if plain > limits.floor and plain > stored * limits.ratio:
            hint = f'possibly a decompression bomb; set "ratio" and "floor" in {FILE} to allow it'
            raise ImageError(f"refusing {what} that expands from {stored} bytes to {plain}", hint)

    def take_hole(self, count: int) -> None:
        """Count a hole of ``count`` bytes in a sparse file of the archive being read."""
        self.holes += count
        self.check_ratio(self.holes, self.source, "a sparse file of the archive")

    def _check_room(self) -> None:
        """Read the free disk space and inodes, and update the limits that depend on them.

        The bytes counted so far are on disk already, so the free space does not include them.
        """
        free, inodes = self.room()
        self._end = self.bytes + free
        self._next_check = self.bytes + _CHECK_INTERVAL
        if self._last_file < 0:
            self._last_file = self.files + inodes


def _exceeded(what: str, limit: str) -> ImageError:
    return ImageError(f"the image has {what}", f'limited by "{limit}" in {FILE}')


def _room(path: str | int, reserve: int) -> tuple[int, int]:
    try:
        facts = statvfs(path)
    except OSError as error:
        where = f'"{path}"' if isinstance(path, str) else "the image's tree"
        raise HostError(f"read the free space of the filesystem of {where}", error) from None
    reserved = min(reserve, facts.f_blocks * facts.f_frsize // _RESERVED_PART)
    # Some filesystems, such as btrfs, report no inodes.
    inodes = facts.f_ffree - facts.f_files // _RESERVED_PART if facts.f_files else MOST
    return max(facts.f_bfree * facts.f_frsize - reserved, 0), max(inodes, 0)
