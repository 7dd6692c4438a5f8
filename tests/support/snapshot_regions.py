"""The regions in a snapshot of the interpreter (csrc/snapshot/format.h)."""

from __future__ import annotations

import mmap
import struct
from typing import NamedTuple

from ociruntime.startup import snapshot

SNAPSHOT, COPIED = -1, -4  # contents: CONTENT_SNAPSHOT, CONTENT_COPIED
CONTENT_AT = 24  # in a region
_REGION = struct.Struct("=QQQiI")
_REGIONS_AT = snapshot.MAPPED_AT - 512 * _REGION.size


class Region(NamedTuple):
    """A region; ``place`` is the offset of its description in the file."""

    place: int
    address: int
    size: int
    content: int
    writable: bool


def regions(data: bytes) -> list[Region]:
    """Return the regions of a snapshot; ``data`` is the file's content."""
    found = []
    for number in range(snapshot.COUNTS.unpack_from(data, snapshot.COUNTS_AT)[2]):
        place = _REGIONS_AT + number * _REGION.size
        address, size, _, content, protection = _REGION.unpack_from(data, place)
        found.append(Region(place, address, size, content, bool(protection & mmap.PROT_WRITE)))
    return found
