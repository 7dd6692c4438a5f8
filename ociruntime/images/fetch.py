"""From what an image is called to the image in the store, by whatever way it comes."""

from __future__ import annotations

import os.path

from ociruntime.base.errors import ImageError
from ociruntime.images.model.progress import silent
from ociruntime.images.model.reference import LOCAL_KINDS, parse
from ociruntime.images.model.value_class import changed
from ociruntime.images.trust.permission import Permission
from ociruntime.images.trust.policy import ACCEPT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Set

    from ociruntime.images.model.image import Image
    from ociruntime.images.model.progress import Progress
    from ociruntime.images.model.reference import Reference
    from ociruntime.images.model.settings import Settings
    from ociruntime.images.registry.sources import Sources
    from ociruntime.images.store.document import Judge
    from ociruntime.images.store.store import Store


def fetch(
    store: Store,
    text: str,
    policy: str,
    insecure: Set[str],
    progress: Progress | None = None,
    *,
    settings: Settings,
    signature: bytes | None = None,
    replace: bool = False,
    warn: Callable[[str], None] | None = None,
) -> Image:
    """The image that ``text`` names (reference.py), put into the store if need be.

    ``policy``: ``new`` asks a registry for what is not in the store, ``update`` for what has
    changed, ``never`` knows the store alone; the first two look at files.
    ``insecure`` holds checks that are left out: "image" (signatures), "tls" (certificates),
    "http" (encryption).
    ``signature``: a detached or a signed OpenPGP message about the image; looked at when the image
    is not in the store under this name.
    ``replace``: give an image the name that its file claims although another image has it.
    ``warn`` gets a line for each name that was claimed in vain.
    Raises HostError, ImageError, RegistryError; then the store is as before.
    """
    reference = parse(text)
    permission = Permission(store, settings, insecure)
    image = _by_id(store, reference)
    if image:
        permission.require_any(image.id)
        store.mark_used(image.id)
        return image
    if reference.kind == "path":
        reference = _recognized(store, reference, settings)
    permission.rule(reference.name)
    if not _is_asked(reference, policy):
        image = _by_name(store, reference, permission, policy)
        if image:
            return image
    if reference.is_local:
        from ociruntime.images.formats.local_image import Claims, take_in
        from ociruntime.images.model.limits import Budget

        judge = _judge(reference, permission, signature, None)
        claims = Claims(permission, replace, warn or _ignore)
        budget = Budget.at(store.path, settings.limits())
        return take_in(store, reference, progress or silent, claims, judge, budget)
    return _from_registry(store, reference, insecure, progress or silent, permission, signature)


def _by_id(store: Store, reference: Reference) -> Image | None:
    """What the store has by the id that is meant; if a name may be meant as well, maybe nothing.

    Raises ImageError.
    """
    if reference.kind == "id":
        return store.find(reference.digest, use=False)
    if reference.maybe_id:
        try:
            return store.find(reference.maybe_id, use=False)
        except ImageError:
            pass  # then it is a name
    return None


def _by_name(
    store: Store, reference: Reference, permission: Permission, policy: str
) -> Image | None:
    """What the store has by that name, unless it has to be asked for, or about, elsewhere.

    Raises ImageError where nobody else may be asked.
    """
    try:
        image = store.find(reference.name, digest=reference.digest)
    except ImageError:
        if policy == "never":
            raise
        return None
    if policy == "never":
        permission.require(image.id, reference.name)
    elif not permission.has(image.id, reference.name):
        return None
    return image


def _recognized(store: Store, reference: Reference, settings: Settings) -> Reference:
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
    from ociruntime.images.formats.local_image import recognized
    from ociruntime.images.model.limits import Budget

    return recognized(reference, Budget.at(store.path, settings.limits()))


def _judge(
    reference: Reference,
    permission: Permission,
    signature: bytes | None,
    sources: Sources | None,
) -> Judge:
    """Who says whether the image may be taken; where nothing has to be signed, everybody does."""
    if signature is None and permission.rule(reference.name).kind == ACCEPT:
        from ociruntime.images.store.document import Judge

        return Judge()
    from ociruntime.images.trust.signatures import SignatureJudge

    return SignatureJudge(reference, permission, signature, sources)


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
    permission: Permission,
    signature: bytes | None,
) -> Image:
    from ociruntime.images.model.limits import Budget
    from ociruntime.images.registry.http_client import HttpClient
    from ociruntime.images.registry.image import update
    from ociruntime.images.registry.sources import Sources

    http = HttpClient(insecure)
    try:
        sources = Sources.of(reference, permission.settings, http)
        judge = _judge(reference, permission, signature, sources)
        budget = Budget.at(store.path, permission.settings.limits())
        return update(store, reference, sources, judge, progress, budget)
    finally:
        http.close()


def _ignore(warning: str) -> None:
    del warning
