"""``image load``: import all images of an archive under the names it declares, like docker load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ociruntime.base.errors import ImageError
from ociruntime.images.formats.local_image import Claims, named_images, recognized
from ociruntime.images.model.image import Image
from ociruntime.images.model.limits import Budget
from ociruntime.images.model.reference import Reference
from ociruntime.images.model.settings import Settings
from ociruntime.images.store.store import Store
from ociruntime.images.trust.permission import Permission


def load(
    store: Store,
    path: str,
    fetch: Callable[[str], Image],
    permission: Permission,
    settings: Settings,
    warn: Callable[[str], None],
) -> Iterator[tuple[Image, list[str]]]:
    """Import each image of the archive or layout at ``path``; yield (image, its new names).

    ``fetch(text)`` imports the image of a local reference.  As in docker, a stored image that has
    one of the names loses it.  An image without names is stored under its file's name. Raises
    HostError, ImageError.
    """
    limits = settings.limits()
    reference = recognized(Reference("path", path, path=path), Budget.at(store.path, limits))
    images = named_images(reference, store.tmp, Budget.at(store.path, limits))
    if not images:
        hint = "use an archive of `docker save`, or an OCI image layout"
        raise ImageError(f'load "{path}": the file contains no images', hint)
    claims = Claims(permission, replace=True, warn=warn)
    for tag, names in images.items():
        source = replace(reference, tag=tag).name
        image = fetch(source)
        claimed = [name for name in names if claims.settle(store, image, name, path)]
        if claimed:
            store.remove_name(image.id, source)
        yield image, claimed
