"""Find the image for a platform in an index, and import that image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ociruntime.base.errors import ImageError
from ociruntime.images.model.image import Descriptor, Image
from ociruntime.images.model.image_limits import Budget
from ociruntime.images.model.manifest import parse_manifest
from ociruntime.images.model.platforms import choose, matching_platforms, read_index
from ociruntime.images.store.import_image import Incoming
from ociruntime.images.store.store import Store

_DEEPEST = 3  # maximum nesting of indexes


@dataclass(frozen=True, slots=True)
class Document:
    """A manifest or index: its bytes, digest, and media type (the Content-Type, or "")."""

    data: bytes
    digest: str
    media_type: str


class ImageVerifier:
    """Decide whether an image may be used; this base class accepts every image."""

    def knows(self, id: str) -> bool:
        """Return whether the stored image ``id`` may be used without verifying it again."""
        del id
        return True

    def __call__(self, documents: list[Document]) -> str:
        """Verify an image; return its signer, or "" if no signature is required.

        ``documents`` lists the indexes through which the image was found, and its manifest last.
        Raises ImageError if the image may not be used.
        """
        del documents
        return ""


def resolve_to_image(
    first: Document, get: Callable[[str], Document], platform: str = ""
) -> list[Document]:
    """Find the manifest of the image for ``platform``, starting from ``first``.

    ``first`` is an index or a manifest; ``get(digest)`` returns a document that an index lists.
    Returns a list: the indexes on the way, beginning with ``first``, then the manifest.  The
    ``platform`` "" stands for this machine's platform.  Raises ImageError if no image matches or a
    document is invalid.
    """
    documents = [first]
    while True:
        what = f"manifest {documents[-1].digest}"
        entries = read_index(documents[-1].data, documents[-1].media_type, what)
        if entries is None:
            return documents
        if len(documents) > _DEEPEST:
            raise ImageError(f"{what}: more than {_DEEPEST} nested indexes")
        documents.append(get(choose(entries, matching_platforms(platform), what).digest))


def take_in(
    store: Store,
    documents: list[Document],
    add_all: Callable[[Incoming, Sequence[tuple[Descriptor, str]]], None],
    verb: str,
    name: str,
    signer: str,
    budget: Budget,
    present: Callable[[Descriptor], int] = lambda _: 0,
) -> Image:
    """Import an image, and return it; the store keeps it as ``name``.

    ``documents`` is the result of ``resolve_to_image``.  ``add_all(incoming, blobs)`` copies the
    missing blobs into the import; ``blobs`` is a list of (descriptor, label for progress).  A label
    is ``verb`` and the number of the layer, such as ``fetching layer 1 of 3``.
    ``present(descriptor)`` returns how many bytes of a blob are already on disk.  ``signer`` is
    recorded with the name.

    Raises HostError if a file cannot be written, ImageError if the image is invalid or exceeds a
    limit.  After an error, the store is unchanged.
    """
    with Incoming(store, budget) as incoming:
        for document in documents:
            incoming.add_bytes(document.data, document.digest)
        _, config, layers = parse_manifest(documents[-1].data, f"manifest {documents[-1].digest}")
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
        index = documents[0].digest if len(documents) > 1 else ""
        return incoming.commit(documents[-1].digest, name, index, signer)
