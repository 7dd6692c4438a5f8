"""Pull an image from a registry: resolve its name, check the policy, download its blobs."""

from __future__ import annotations

from errno import EDQUOT, ENOSPC

from ociruntime.base.errors import HostError, ImageError, RegistryError
from ociruntime.images.model.image import Image, Progress
from ociruntime.images.model.image_limits import Budget
from ociruntime.images.model.platforms import fits
from ociruntime.images.model.reference import Reference
from ociruntime.images.registry.parallel_downloads import Downloads
from ociruntime.images.registry.sources import Sources
from ociruntime.images.store.resolve_index import ImageVerifier, resolve_to_image, take_in
from ociruntime.images.store.store import Store


def update(
    store: Store,
    reference: Reference,
    sources: Sources,
    verifier: ImageVerifier,
    progress: Progress,
    budget: Budget,
) -> Image:
    """Return the image that ``reference`` now names in its registry; fetch missing blobs.

    Raises HostError if a file cannot be read or written, RegistryError if a download fails,
    ImageError if the image is invalid, exceeds a limit or is not permitted by the signature policy.
    After an error, the store is unchanged.
    """
    name = reference.name
    tag = reference.digest or reference.tag
    try:
        stored = store.find(name, digest=reference.digest)
    except ImageError:
        stored = None
    if stored and not (verifier.knows(stored.id) and fits(stored.config, reference.platform)):
        stored = None
    if stored and (reference.digest or _is_current(stored, sources.head_manifest(tag))):
        return stored  # the image of a digest never changes
    documents = resolve_to_image(sources.manifest(tag), sources.manifest, reference.platform)
    if stored and stored.id == documents[-1].digest:
        return stored
    signer = verifier(documents)
    downloads = Downloads(f"{store.path}/partial", sources, progress)
    try:
        image = take_in(
            store, documents, downloads.add_all, "fetching", name, signer, budget, downloads.present
        )
    except RegistryError:
        raise  # keep the downloads, so that the next attempt can resume
    except HostError as error:
        if error.errno in (ENOSPC, EDQUOT):
            downloads.discard()  # free their disk space: the disk is full
        raise
    except ImageError:
        downloads.discard()
        raise
    downloads.discard()
    return image


def _is_current(stored: Image, digest: str) -> bool:
    """Return whether ``digest`` is the digest of the stored image or of its index."""
    return digest != "" and digest in (stored.id, stored.index)
