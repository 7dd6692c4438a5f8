"""Images out of files: which kind a path is, and taking it into the store."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from ociruntime.errors import ImageError
from ociruntime.image.progress import Progress
from ociruntime.image.reference import Reference
from ociruntime.image.settings import Settings

if TYPE_CHECKING:
    from ociruntime.image.image import Image
    from ociruntime.image.store import Store


def recognized(reference: Reference) -> Reference:
    """``reference`` of kind path with the kind that is found there.  Raises ImageError."""
    return reference


def take_in(
    store: Store,
    reference: Reference,
    insecure: Set[str],
    progress: Progress,
    settings: Settings,
    signature: bytes | None,
) -> Image:
    """The image in the store, under the name of ``reference``.  Raises HostError, ImageError."""
    del store, insecure, progress, settings, signature
    raise ImageError(f'"{reference.text}": not there yet')
