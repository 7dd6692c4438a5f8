"""The layers of an image, one above the other, in one directory."""

from __future__ import annotations

from collections.abc import Sequence

from ociruntime.base.errors import ImageError
from ociruntime.images.model.blobs import Blobs
from ociruntime.images.model.digest import hasher
from ociruntime.images.model.image import Layer
from ociruntime.images.model.limits import Budget, Limits
from ociruntime.images.model.progress import silent
from ociruntime.images.tar.attributes import Notes
from ociruntime.images.tar.reader import TarReader
from ociruntime.images.tar.streams import CHUNK, Counted, Readable, decompressed
from ociruntime.images.unpack.layer import LayerUnpacker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.images.model.progress import Progress


class Checked:
    """The plain bytes of a layer, hashed on the way; what they take, ``budget`` limits.

    ``stored`` counts what they came from; ``total`` is how much that is in all.
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
        self.at = 0  # what of the buffer was read

    def read(self, size: int, /) -> bytes:
        if self.at == len(self.buffer):
            self._fill()
        data = self.buffer[self.at : self.at + size]
        self.at += len(data)
        return data

    def _fill(self) -> None:
        """Headers are small and many: nobody below is asked for each of them."""
        self.buffer, self.at = self.plain.read(CHUNK), 0
        self.hash.update(self.buffer)
        self.progress(self.kind, self.stored.count, self.layer.size)

    def finish(self) -> None:
        """Reads what is left behind the archive.  Raises ImageError if the digest is wrong."""
        while self.read(CHUNK):
            pass
        algorithm, _, digits = self.layer.diff_id.partition(":")
        found = self.hash.hexdigest()
        if found != digits:
            expected = self.layer.diff_id
            raise ImageError(f"digest mismatch of a layer's content: {algorithm}:{found}", expected)


def unpack_layer(stream: Readable, layer: Layer, root: int, budget: Budget, notes: Notes) -> None:
    """One layer, which ``stream`` has as it is stored, into the directory ``root`` (descriptor).

    Raises ImageError for the layer, HostError for the host; the directory is of no use then.
    """
    _unpack(stream, layer, root, budget, notes, silent, "unpacking")


def unpack(
    blobs: Blobs,
    layers: Sequence[Layer],
    root: int,
    limits: Limits | None = None,
    progress: Progress = silent,
) -> list[str]:
    """All layers into ``root``, the descriptor of an empty directory; what was left out, in lines.

    Needs root, for owners and devices.  Raises ImageError, HostError; what has been made until
    then stays for the caller to remove.
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
