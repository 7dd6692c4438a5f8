"""Manifests and indexes as bytes with a digest, and the way from a name to one image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ociruntime.base.errors import ImageError
from ociruntime.images.model.manifest import parse_manifest
from ociruntime.images.model.platforms import choose, host, read_index
from ociruntime.images.store.incoming import Incoming

if TYPE_CHECKING:
    from ociruntime.images.model.image import Descriptor, Image
    from ociruntime.images.model.limits import Budget
    from ociruntime.images.store.store import Store

_DEEPEST = 3  # indexes of indexes


@dataclass(frozen=True, slots=True)
class Document:
    """``digest`` is that of ``data``; ``media_type`` is what it came as, maybe empty."""

    data: bytes
    digest: str
    media_type: str


class Judge:
    """Says whether an image may be taken under a name; this one accepts every image."""

    def knows(self, id: str) -> bool:
        """Whether the image, which the store has under that name, need not be judged again."""
        del id
        return True

    def __call__(self, documents: list[Document]) -> str:
        """Who has signed the image, "" where nobody has to.

        ``documents`` lead to it, the one that its name means first.  Raises ImageError if it may
        not be taken.
        """
        del documents
        return ""


def way_to_image(first: Document, get: Callable[[str], Document]) -> list[Document]:
    """From what a name means to the manifest for this machine; ``get`` finds by digest.

    Raises ImageError.
    """
    way = [first]
    while True:
        what = f"the manifest {way[-1].digest}"
        entries = read_index(way[-1].data, way[-1].media_type, what)
        if entries is None:
            return way
        if len(way) > _DEEPEST:
            raise ImageError(f"{what}: more than {_DEEPEST} indexes in one another")
        way.append(get(choose(entries, host(), what).digest))


def take_in(
    store: Store,
    way: list[Document],
    add: Callable[[Incoming, Descriptor, str], None],
    verb: str,
    name: str,
    signer: str,
    budget: Budget,
) -> Image:
    """The image at the end of ``way`` under that name; ``add`` brings a blob that is missing.

    It is given what to call that: ``verb`` and the layer's number.  ``budget`` pays for it.  Raises
    HostError, ImageError; then the store is as before.
    """
    with Incoming(store, budget) as incoming:
        for document in way:
            incoming.add_bytes(document.data, document.digest)
        _, config, layers = parse_manifest(way[-1].data)
        for number, blob in enumerate((config, *layers)):
            what = f"layer {number} of {len(layers)}" if number else "the configuration"
            if not incoming.has(blob.digest):
                add(incoming, blob, f"{verb} {what}")
        index = way[0].digest if len(way) > 1 else ""
        return incoming.commit(way[-1].digest, name, index, signer)
