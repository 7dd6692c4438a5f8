"""An image out of a registry: which one a name means now, whether it may be taken, its blobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ociruntime.errors import ImageError, RegistryError
from ociruntime.image.incoming import Incoming
from ociruntime.image.manifest import parse_manifest
from ociruntime.image.partial import Download
from ociruntime.image.platforms import choose, host, read_index
from ociruntime.image.progress import Progress

if TYPE_CHECKING:
    from ociruntime.image.image import Descriptor, Image
    from ociruntime.image.reference import Reference
    from ociruntime.image.registry import Served
    from ociruntime.image.sources import Sources
    from ociruntime.image.store import Store

_DEEPEST = 3  # indexes of indexes

# Called with the documents that lead to the image, the one that the name means first;
# raises ImageError if none of them is signed as it has to be.
Judge = Callable[[list["Served"]], None]


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
    way = _way_to_image(sources, wanted)
    if known and known.id == way[-1].digest:
        return known
    judge(way)
    with Incoming(store) as incoming:
        for document in way:
            incoming.add_bytes(document.data, document.digest)
        _, config, layers = parse_manifest(way[-1].data)
        for number, blob in enumerate((config, *layers)):
            what = f"layer {number} of {len(layers)}" if number else "the configuration"
            if not incoming.has(blob.digest):
                _transfer(store, incoming, sources, blob, progress, f"fetching {what}")
        index = way[0].digest if len(way) > 1 else ""
        return incoming.commit(way[-1].digest, name, index)


def _way_to_image(sources: Sources, wanted: str) -> list[Served]:
    """The documents from what the name means to the manifest for this machine."""
    way = [sources.manifest(wanted)]
    while True:
        served = way[-1]
        what = f"the manifest {served.digest}"
        entries = read_index(served.data, served.media_type, what)
        if entries is None:
            return way
        if len(way) > _DEEPEST:
            raise ImageError(f"{what}: more than {_DEEPEST} indexes in one another")
        chosen = choose(entries, host(), what)
        way.append(sources.manifest(chosen.digest))


def _transfer(
    store: Store,
    incoming: Incoming,
    sources: Sources,
    blob: Descriptor,
    progress: Progress,
    kind: str,
) -> None:
    while True:
        with Download(f"{store.path}/partial", sources, blob) as download:
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
