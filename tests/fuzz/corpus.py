"""The corpora: inputs that reach different code, in one archive per target.

Archives contain no times, and are sorted by name, so that the same inputs give the same bytes.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parent / "corpus"
LARGEST = 20_000  # bytes of an archive
_EPOCH = (1980, 1, 1, 0, 0, 0)


def inputs(target: str) -> list[bytes]:
    """Return the inputs of a target's corpus, [] if it has none."""
    path = DIRECTORY / f"{target}.zip"
    if not path.exists():
        return []
    with zipfile.ZipFile(path) as archive:
        return [archive.read(name) for name in archive.namelist()]


def name_of(data: bytes) -> str:
    """Return the name of an input."""
    return hashlib.sha256(data).hexdigest()[:12]


def save(target: str, kept: Iterable[bytes]) -> int:
    """Write a target's corpus, smallest inputs first, up to LARGEST bytes; return their number."""
    path = DIRECTORY / f"{target}.zip"
    chosen = sorted(set(kept), key=lambda data: (len(data), data))
    while True:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for data in chosen:
                archive.writestr(zipfile.ZipInfo(name_of(data), _EPOCH), data, zipfile.ZIP_DEFLATED)
        if path.stat().st_size <= LARGEST:
            return len(chosen)
        del chosen[-max(1, len(chosen) // 20) :]
