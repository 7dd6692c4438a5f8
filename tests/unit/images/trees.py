"""Unpack layers into a directory in tests, and describe the content of a directory."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from ociruntime.images.model.image import Layer
from ociruntime.images.model.image_limits import Budget, Limits
from ociruntime.images.tar.file_attributes import AttributeWarnings
from ociruntime.images.unpack.unpack import unpack_layer
from tests.support import images

FREE = 1 << 40


def layer_of(plain: bytes, stored: bytes | None = None) -> Layer:
    content = plain if stored is None else stored
    return Layer(
        images.digest(content), len(content), images.OCI_LAYER[""], images.digest(plain), ""
    )


def apply(root: Path, *layers: bytes, limits: Limits | None = None) -> list[str]:
    """Unpack plain tars into ``root``, created if missing; return the warnings."""
    return apply_stored(root, [(layer, layer) for layer in layers], limits)


def apply_stored(
    root: Path, layers: Sequence[tuple[bytes, bytes]], limits: Limits | None = None
) -> list[str]:
    """Do the same for pairs of a plain tar and its stored form."""
    root.mkdir(exist_ok=True)
    budget, warnings = Budget(limits or Limits(), lambda: (FREE, FREE)), AttributeWarnings()
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for plain, stored in layers:
            unpack_layer(io.BytesIO(stored), layer_of(plain, stored), fd, budget, warnings)
    finally:
        os.close(fd)
    return warnings.lines()


def contents(root: Path) -> dict[str, str]:
    """Path below ``root`` -> text of a file, ``-> target`` of a link, ``/`` of a directory."""
    found = {}
    for directory, directories, names in os.walk(root):
        for name in directories + names:
            path = Path(directory, name)
            found[str(path.relative_to(root))] = _shown(path)
    return found


def _shown(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"-> {os.readlink(path)}"
    if stat.S_ISDIR(mode):
        return "/"
    return path.read_text() if stat.S_ISREG(mode) else stat.filemode(mode)
