"""An image out of a registry: which one a name means now, whether it may be taken, its blobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ociruntime.errors import ImageError, RegistryError
from ociruntime.image.document import Judge, take_in, way_to_image
from ociruntime.image.partial import Download
from ociruntime.image.progress import Progress

if TYPE_CHECKING:
    from ociruntime.image.image import Descriptor, Image
    from ociruntime.image.incoming import Incoming
    from ociruntime.image.reference import Reference
    from ociruntime.image.sources import Sources
    from ociruntime.image.store import Store


def update(
    store: Store, reference: Reference, sources: Sources, judge: Judge, progress: Progress
) -> Image:
    """The image that the registry has under that name now; transfers what the store lacks.

    Raises HostError, ImageError, RegistryError; then the store is as before.
    """
    name = reference.name
    wanted = reference.digest or reference.tag
    try:
        known = store.find(name)
    except ImageError:
        known = None
    if known and (reference.digest or sources.head_manifest(wanted) in (known.id, known.index)):
        return known  # a digest always means the same
    way = way_to_image(sources.manifest(wanted), sources.manifest)
    if known and known.id == way[-1].digest:
        return known
    judge(way)

    def add(incoming: Incoming, blob: Descriptor, kind: str) -> None:
        _transfer(f"{store.path}/partial", incoming, sources, blob, progress, kind)

    return take_in(store, way, add, "fetching", name)


def _transfer(
    directory: str,
    incoming: Incoming,
    sources: Sources,
    blob: Descriptor,
    progress: Progress,
    kind: str,
) -> None:
    while True:
        with Download(directory, sources, blob) as download:
            try:
                # Whoever had the download before may have finished it.
                if not incoming.has(blob.digest):
                    incoming.add_blob(download, blob.digest, blob.size, progress, kind)
            except RegistryError:
                raise  # what has come may be gone on with
            except ImageError:
                download.discard()
                # What lay there from an earlier attempt may be at fault, or a mirror.
                if not download.resumed and not sources.give_up():
                    raise
                continue
            download.discard()
            return
