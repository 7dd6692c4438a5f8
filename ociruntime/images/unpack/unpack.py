"""Unpack the layers of an image on top of each other into a directory."""

from __future__ import annotations

from collections.abc import Sequence

from ociruntime.base.errors import ImageError
from ociruntime.images.model.blobs import Blobs
from ociruntime.images.model.digest import hasher
from ociruntime.images.model.image import Layer
from ociruntime.images.model.limits import Budget, Limits
from ociruntime.images.model.progress import Progress, silent
from ociruntime.images.tar.attributes import Notes
from ociruntime.images.tar.reader import TarReader
from ociruntime.images.tar.streams import CHUNK, Counted, Readable, decompressed
from ociruntime.images.unpack.layer import LayerUnpacker


class Checked:
    """The decompressed bytes of a layer, hashed as they are read and limited by ``budget``.

    ``stored`` counts the compressed bytes read, out of ``total``.
    """

    def __init__(
        self, stored: Counted, layer: Layer, budget: Budget, progress: Progress, kind: str
    ) -> None:
        self.stored = stored
        self.layer = layer
        self.progress = progress
        self.kind = kind
        self.plain = decompressed(stored, budget)
        self.hash = hasher(layer.diff_id)
        self.buffer = b""
        self.at = 0  # position in the buffer

    def read(self, size: int, /) -> bytes:
        if self.at == len(self.buffer):
            self._fill()
        data = self.buffer[self.at : self.at + size]
        self.at += len(data)
        return data

    def _fill(self) -> None:
        """Fill the buffer, which spares a call chain for each of many small headers."""
        self.buffer, self.at = self.plain.read(CHUNK), 0
        self.hash.update(self.buffer)
        self.progress(self.kind, self.stored.count, self.layer.size)

    def finish(self) -> None:
        """Read the rest of the stream and verify the digest.  Raises ImageError."""
        while self.read(CHUNK):
            pass
        algorithm, _, digits = self.layer.diff_id.partition(":")
        found = self.hash.hexdigest()
        if found != digits:
            expected = self.layer.diff_id
            raise ImageError(f"digest mismatch of a layer's content: {algorithm}:{found}", expected)


def unpack_layer(stream: Readable, layer: Layer, root: int, budget: Budget, notes: Notes) -> None:
    """Unpack a layer from its stored form into the directory ``root`` (a descriptor).

    Raises ImageError for faults of the layer, HostError for the host's; ``root`` is then
    incomplete.
    """
    _unpack(stream, layer, root, budget, notes, silent, "unpacking")


def unpack(
    blobs: Blobs,
    layers: Sequence[Layer],
    root: int,
    limits: Limits | None = None,
    progress: Progress = silent,
) -> list[str]:
    """Unpack all layers into the empty directory ``root`` (descriptor); return what was left out.

    Requires root, for owners and devices.  Raises ImageError, HostError; the caller then removes
    what has been created.
    """
    notes = Notes()
    budget = Budget.at(root, limits or Limits())
    for number, layer in enumerate(layers, 1):
        kind = f"unpacking layer {number} of {len(layers)}"
        with blobs.open(layer.digest) as stream:
            _unpack(stream, layer, root, budget, notes, progress, kind)
    return notes.lines()


def _unpack(
    stream: Readable,
    layer: Layer,
    root: int,
    budget: Budget,
    notes: Notes,
    progress: Progress,
    kind: str,
) -> None:
    checked = Checked(Counted(stream), layer, budget, progress, kind)
    LayerUnpacker(TarReader(checked), root, budget, notes).apply()
    checked.finish()
