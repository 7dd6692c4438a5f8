"""Images of the store by what a user calls them: never fetched, and not counted as used."""

from __future__ import annotations

from ociruntime.base.errors import ImageError, RuntimeFailure
from ociruntime.images.model.reference import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.images.store.index_copy import Record
    from ociruntime.images.store.store import Store


def look_up(store: Store, text: str) -> Record:
    """The image that ``text`` means: an id, the beginning of one, or a name in any form.

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
    """As the store has it, empty if ``text`` is nothing that could be fetched."""
    try:
        reference = parse(text)
        if reference.kind == "path":
            from ociruntime.images.formats.local_image import recognized
            from ociruntime.images.model.limits import Budget, Limits

            reference = recognized(reference, Budget.at(store.path, Limits()))
    except RuntimeFailure:
        return ""
    return reference.name
