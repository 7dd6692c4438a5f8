"""An image out of a registry: which one a name means now, whether it may be taken, its blobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ociruntime.base.errors import ImageError, RegistryError
from ociruntime.images.registry.partial import Download
from ociruntime.images.store.document import Judge, take_in, way_to_image

if TYPE_CHECKING:
    from ociruntime.images.model.image import Descriptor, Image
    from ociruntime.images.model.limits import Budget
    from ociruntime.images.model.progress import Progress
    from ociruntime.images.model.reference import Reference
    from ociruntime.images.registry.sources import Sources
    from ociruntime.images.store.incoming import Incoming
    from ociruntime.images.store.store import Store


def update(
    store: Store,
    reference: Reference,
    sources: Sources,
    judge: Judge,
    progress: Progress,
    budget: Budget,
) -> Image:
    """The image that the registry has under that name now; transfers what the store lacks.

    Raises HostError, ImageError, RegistryError; then the store is as before.
    """
    name = reference.name
    wanted = reference.digest or reference.tag
    try:
        known = store.find(name, digest=reference.digest)
    except ImageError:
        known = None
    if known and not judge.knows(known.id):
        known = None
    if known and (reference.digest or _is_still(known, sources.head_manifest(wanted))):
        return known  # a digest always means the same
    way = way_to_image(sources.manifest(wanted), sources.manifest)
    if known and known.id == way[-1].digest:
        return known
    signer = judge(way)
    downloads = Downloads(f"{store.path}/partial", sources, progress)
    try:
        image = take_in(store, way, downloads.add, "fetching", name, signer, budget)
    except RegistryError:
        raise  # the next attempt goes on with what has come
    except ImageError:
        downloads.discard()
        raise
    downloads.discard()
    return image


def _is_still(known: Image, digest: str) -> bool:
    """Whether the registry has said that it has this image, itself or by its index."""
    return digest != "" and digest in (known.id, known.index)


class Downloads:
    """Brings the blobs of one image into an import."""

    def __init__(self, directory: str, sources: Sources, progress: Progress) -> None:
        self.directory = directory
        self.sources = sources
        self.progress = progress
        self.blobs: list[Descriptor] = []

    def add(self, incoming: Incoming, blob: Descriptor, kind: str) -> None:
        """Raises HostError, RegistryError, ImageError."""
        self.blobs.append(blob)
        # A download never has more bytes than were announced.
        incoming.budget.take_bytes(blob.size)
        while True:
            with Download(self.directory, self.sources, blob) as download:
                # Whoever had the download before may have finished it.
                if incoming.has(blob.digest):
                    return
                try:
                    download.complete(self.progress, kind)
                except RegistryError:
                    raise
                except ImageError:
                    download.discard()
                    # What lay there from an earlier attempt may be at fault, or a mirror.
                    if not download.resumed and not self.sources.give_up():
                        raise
                else:
                    incoming.adopt(download.path, blob.digest)
                    return

    def discard(self) -> None:
        """Nothing is kept of what was added.  Raises HostError."""
        for blob in self.blobs:
            with Download(self.directory, self.sources, blob) as download:
                download.discard()
