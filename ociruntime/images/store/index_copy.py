"""A JSON copy of the index of images, for lookups: loading SQLite takes longer.

    $D/cas/index.json       {"index": [inode, size, mtime], "images": [[id, names, ...], ...]}

The copy is valid while the database is the same unchanged file, with nothing in SQLite's write-
ahead log.  A process that finds it invalid writes a new one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ociruntime.base.errors import ImageError
from ociruntime.base.files import replace_file
from ociruntime.base.json_text import dump, read
from ociruntime.images.model.reference import is_id_digits

# File times have a coarse resolution: soon after a change, another one may not be visible.
_SETTLED = 1_000_000_000  # nanoseconds


@dataclass(frozen=True)
class Record:
    """What the index knows of an image, even if its blobs are damaged; see Image.

    ``origins`` maps each name that it was imported under to its signer, "" if none was required.
    """

    id: str
    name: str
    names: tuple[str, ...]
    size: int
    imported: float
    used: float
    index: str
    origins: tuple[tuple[str, str], ...] = ()


def identity(database: str) -> list[int]:
    """Return a key for the content of the database file; [] if the file does not identify it."""
    try:
        file = os.stat(database)
        if _size(f"{database}-wal") or time.time_ns() - file.st_mtime_ns < _SETTLED:
            return []
    except OSError:
        return []
    return [file.st_ino, file.st_size, file.st_mtime_ns]


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def read_copy(path: str, database: str) -> list[Record] | None:
    """Return all records; None if there is no valid copy."""
    try:
        with open(path, "rb") as file:
            document = read(file.read())
        if not document["index"] or document["index"] != identity(database):
            return None
        return [_record(*image) for image in document["images"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _record(
    id: str,
    names: list[str],
    size: int,
    imported: float,
    used: float,
    index: str,
    origins: dict[str, str],
) -> Record:
    name = names[0] if names else ""
    came = tuple(origins.items())
    return Record(id, name, tuple(names), size, imported, used, index, came)


def write_copy(path: str, found: list[int], records: Iterable[Record]) -> None:
    """Write ``records``, read after ``identity`` had returned ``found``; do nothing if it is [].

    A copy that cannot be written is not an error.
    """
    if not found:
        return
    images = [
        [one.id, [*one.names], one.size, one.imported, one.used, one.index, dict(one.origins)]
        for one in records
    ]
    try:
        replace_file(path, dump({"index": found, "images": images}).encode(), 0o644)
    except OSError:
        pass


def chosen(records: Iterable[Record], reference: str) -> Record:
    """Return the image with a name, an id or a unique prefix of one.  Raises ImageError."""
    digits = reference.removeprefix("sha256:")
    beginning = f"sha256:{digits}" if is_id_digits(digits) else ""
    found = []
    for record in records:
        if reference in record.names:
            return replace(record, name=reference)
        if beginning and record.id.startswith(beginning):
            found.append(record)
    if len(found) > 1:
        ids = ", ".join(record.id[:19] for record in found)
        raise ImageError(f'"{reference}" means several images', ids)
    if not found:
        raise ImageError(f'image "{reference}" is not in the store')
    return found[0]
