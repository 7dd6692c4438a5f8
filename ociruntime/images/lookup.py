"""Look up images of the store by user input; nothing is fetched or marked as used."""

from __future__ import annotations

from ociruntime.base.errors import ImageError, RuntimeFailure
from ociruntime.images.model.image import Record
from ociruntime.images.model.reference import parse
from ociruntime.images.store.store import Store


def look_up(store: Store, text: str) -> Record:
    """Return the image for ``text``: an id, a prefix of one, or a name in any form.

    Raises ImageError if it is not in the store.
    """
    try:
        return store.record(text)
    except ImageError as failure:
        name = _full_name(store, text)
        if name in ("", text):
            raise
        try:
            return store.record(name)
        except ImageError:
            raise failure from None


def _full_name(store: Store, text: str) -> str:
    """Return the name as the store has it; "" if ``text`` is not a valid name."""
    try:
        reference = parse(text)
        if reference.kind == "path":
            from ociruntime.images.formats.local_image import recognized
            from ociruntime.images.model.limits import Budget, Limits

            reference = recognized(reference, Budget.at(store.path, Limits()))
    except RuntimeFailure:
        return ""
    return reference.name
