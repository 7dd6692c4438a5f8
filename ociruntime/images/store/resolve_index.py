"""Resolution of an index to the image for a platform, and the import of that image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ociruntime.base.errors import ImageError
from ociruntime.images.model.image import Descriptor, Image
from ociruntime.images.model.limits import Budget
from ociruntime.images.model.manifest import parse_manifest
from ociruntime.images.model.platforms import choose, matching_platforms, read_index
from ociruntime.images.store.incoming import Incoming
from ociruntime.images.store.store import Store

_DEEPEST = 3  # maximum nesting of indexes


@dataclass(frozen=True, slots=True)
class Document:
    """A manifest or index with the digest of ``data``; ``media_type`` is the Content-Type or ""."""

    data: bytes
    digest: str
    media_type: str


class Judge:
    """The check whether an image may be used under a name; this base class accepts every image."""

    def knows(self, id: str) -> bool:
        """Return whether the stored image with this id may be used without a new check."""
        del id
        return True

    def __call__(self, documents: list[Document]) -> str:
        """Check an image; return its signer, "" if no signature is required.

        ``documents`` are those from ``way_to_image``.  Raises ImageError if it is not allowed.
        """
        del documents
        return ""


def way_to_image(
    first: Document, get: Callable[[str], Document], platform: str = ""
) -> list[Document]:
    """Resolve ``first``, an index or manifest, to the manifest of the image for ``platform``.

    ``get`` returns a document by digest.  Returns ``first``, then any nested indexes, then the
    manifest.  The default platform is the machine's.  Raises ImageError.
    """
    way = [first]
    while True:
        what = f"manifest {way[-1].digest}"
        entries = read_index(way[-1].data, way[-1].media_type, what)
        if entries is None:
            return way
        if len(way) > _DEEPEST:
            raise ImageError(f"{what}: more than {_DEEPEST} nested indexes")
        way.append(get(choose(entries, matching_platforms(platform), what).digest))


def take_in(
    store: Store,
    way: list[Document],
    add_all: Callable[[Incoming, Sequence[tuple[Descriptor, str]]], None],
    verb: str,
    name: str,
    signer: str,
    budget: Budget,
    present: Callable[[Descriptor], int] = lambda _: 0,
) -> Image:
    """Import the image whose manifest is the last document of ``way``, under ``name``.

    ``add_all`` copies the missing blobs into the import; each comes with its label for progress,
    ``verb`` and the layer's number.  ``present`` returns how much of a blob is on the disk already.
    ``signer`` is recorded with the name.
    Raises HostError, ImageError; the store is then unchanged.
    """
    with Incoming(store, budget) as incoming:
        for document in way:
            incoming.add_bytes(document.data, document.digest)
        _, config, layers = parse_manifest(way[-1].data, f"manifest {way[-1].digest}")
        missing: dict[str, tuple[Descriptor, str]] = {}
        for number, blob in enumerate((config, *layers)):
            what = f"layer {number} of {len(layers)}" if number else "the configuration"
            if not incoming.has(blob.digest):
                missing.setdefault(blob.digest, (blob, f"{verb} {what}"))
        needed = sum(
            max(descriptor.size - present(descriptor), 0) for descriptor, _ in missing.values()
        )
        budget.check_room(needed, f'the layers of image "{name}"')
        add_all(incoming, list(missing.values()))
        index = way[0].digest if len(way) > 1 else ""
        return incoming.commit(way[-1].digest, name, index, signer)
