"""How much an image may make: an archive of a few kilobytes can hold any number of zeros."""

from __future__ import annotations

from ociruntime.errors import ImageError
from ociruntime.image.frozen import frozen

GIB = 1 << 30


@frozen
class Limits:
    """Of one image: bytes of all its files, entries of all its layers, directories one in another.

    Directories that are made because a name has them count as entries.
    A layer that is larger than ``suspicious`` bytes may be ``ratio`` times as large as it came.
    """

    bytes: int = 256 * GIB
    entries: int = 2_000_000
    depth: int = 256
    suspicious: int = GIB // 2
    ratio: int = 200


class Budget:
    """What is left of the limits while an image is unpacked; ``free`` bytes are on the disk."""

    def __init__(self, limits: Limits, free: int) -> None:
        self.limits = limits
        self.free = free
        self.bytes = 0
        self.entries = 0

    def take_bytes(self, count: int) -> None:
        """Raises ImageError."""
        self.bytes += count
        if self.bytes > self.limits.bytes:
            raise ImageError(f"the image has more than {self.limits.bytes} bytes of files")
        if self.bytes > self.free:
            raise ImageError(f"the image has more bytes than the {self.free} that are free")

    def take_entry(self) -> None:
        """Raises ImageError."""
        self.entries += 1
        if self.entries > self.limits.entries:
            raise ImageError(f"the image has more than {self.limits.entries} files")

    def check_ratio(self, plain: int, stored: int) -> None:
        """``plain`` bytes came out of ``stored`` ones of a layer.  Raises ImageError."""
        if plain > self.limits.suspicious and plain > stored * self.limits.ratio:
            hint = "a decompression bomb"
            raise ImageError(f"a layer makes {plain} bytes of {stored}", hint)
