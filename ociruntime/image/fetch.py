"""From what an image is called to the image in the store, by whatever way it comes."""

from __future__ import annotations

import os.path

from ociruntime.errors import ImageError
from ociruntime.image.frozen import changed
from ociruntime.image.policy import ACCEPT, REJECT, load_policy
from ociruntime.image.progress import silent
from ociruntime.image.reference import LOCAL_KINDS, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Set

    from ociruntime.image.document import Document, Judge
    from ociruntime.image.image import Image
    from ociruntime.image.progress import Progress
    from ociruntime.image.reference import Reference
    from ociruntime.image.settings import Settings
    from ociruntime.image.sources import Sources
    from ociruntime.image.store import Store

PULL_POLICIES = ("new", "update", "never")


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

    ``policy``: ``new`` asks a registry for what is not in the store, ``update`` for what has
    changed, ``never`` knows the store alone; the first two look at files.
    ``insecure`` holds checks that are left out: "image" (signatures), "tls" (certificates),
    "http" (encryption).
    ``signature``: a detached or a signed OpenPGP message about the image; looked at when the image
    is not in the store under this name.
    Raises HostError, ImageError, RegistryError; then the store is as before.
    """
    if policy not in PULL_POLICIES:
        raise ImageError(f'unknown pull policy "{policy}"', ", ".join(PULL_POLICIES))
    reference = parse(text)
    if reference.kind == "id":
        return store.find(reference.digest)
    if reference.maybe_id:
        try:
            return store.find(reference.maybe_id)
        except ImageError:
            pass  # then it is a name
    if reference.kind == "path":
        reference = _recognized(store, reference)
    rule = load_policy(settings).rule(reference.name)
    if rule.kind == REJECT:
        raise ImageError(f'image "{reference.name}" is rejected', rule.where)
    if not _is_asked(reference, policy):
        try:
            return store.find(reference.name)
        except ImageError:
            if policy == "never":
                raise
    if reference.is_local:
        from ociruntime.image.local_image import take_in

        judge = _judge(reference, settings, insecure, signature, None)
        return take_in(store, reference, insecure, progress or silent, settings, judge)
    return _from_registry(store, reference, insecure, progress or silent, settings, signature)


def _recognized(store: Store, reference: Reference) -> Reference:
    """A path with the kind of what is there; or, if nothing is, of what the store had from there.

    Raises HostError, ImageError.
    """
    if not os.path.lexists(reference.path):
        for kind in LOCAL_KINDS:
            before = changed(reference, kind=kind)
            try:
                store.record(before.name)
            except ImageError:
                continue
            return before
    from ociruntime.image.local_image import recognized

    return recognized(reference)


def _judge(
    reference: Reference,
    settings: Settings,
    insecure: Set[str],
    signature: bytes | None,
    sources: Sources | None,
) -> Judge:
    """Who says whether the image may be taken; where nothing has to be signed, nobody is asked."""
    if signature is None and load_policy(settings).rule(reference.name).kind == ACCEPT:
        return _accept
    from ociruntime.image.signatures import SignatureJudge

    return SignatureJudge(reference, settings, insecure, signature, sources)


def _accept(documents: list[Document]) -> None:
    """The judge where nothing has to be signed."""
    del documents


def _is_asked(reference: Reference, policy: str) -> bool:
    """Whether the source is asked although the store may have the image.

    A file that is there is always looked at: it is at hand, and who has built an image anew wants
    that one to run.
    """
    return policy == "update" or (
        policy == "new" and reference.is_local and os.path.lexists(reference.path)
    )


def _from_registry(
    store: Store,
    reference: Reference,
    insecure: Set[str],
    progress: Progress,
    settings: Settings,
    signature: bytes | None,
) -> Image:
    from ociruntime.image.http_client import HttpClient
    from ociruntime.image.registry_image import update
    from ociruntime.image.sources import Sources

    http = HttpClient(insecure)
    try:
        sources = Sources.of(reference, settings, http)
        judge = _judge(reference, settings, insecure, signature, sources)
        return update(store, reference, sources, judge, progress)
    finally:
        http.close()
