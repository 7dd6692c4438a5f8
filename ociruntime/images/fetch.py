"""Fetch images from a registry or a local file into the store, and look up stored images."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Set

from ociruntime.base.errors import ImageError, RuntimeFailure
from ociruntime.base.files import is_there
from ociruntime.images.model.image import Image, Progress, Record, silent
from ociruntime.images.model.platforms import fits, parse_platform
from ociruntime.images.model.reference import LOCAL_KINDS, SURE_DIGITS, Reference, parse
from ociruntime.images.model.settings_files import Settings
from ociruntime.images.registry.sources import Sources
from ociruntime.images.store.resolve_index import ImageVerifier
from ociruntime.images.store.store import Store
from ociruntime.images.trust.check_stored_image import Permission
from ociruntime.images.trust.policy import ACCEPT


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
    platform: str = "",
) -> Image:
    """Return the image that the reference ``text`` names (reference.py); fetch it if needed.

    ``policy`` is ``new`` (ask a registry only for images that are not in the store), ``update``
    (also ask it for newer versions of stored images) or ``never`` (use only the store).  With
    ``new`` and ``update``, an image in a local file is imported again.

    ``insecure`` lists disabled checks: "image" (signatures), "tls" (certificates), "http"
    (encryption).  ``signature`` is an OpenPGP signature: either detached, or a signed message that
    contains the signed document.  To verify it, the image is fetched again even if it is in the
    store.  Therefore a signature cannot be combined with the policy ``never`` or an image id.

    An ACI declares its own name.  If another image in the store has that name, the ACI takes the
    name if ``replace`` is set; otherwise the ACI is imported without it, and ``warn`` is called.
    ``warn`` is also called for each ignored credentials file.

    ``platform`` is for example ``linux/arm64``, or "" for the machine's platform.  An image for
    another platform is refused.

    Raises HostError if a file cannot be read or written, RegistryError if a registry fails,
    ImageError for other errors.  After an error, the store is unchanged, with one exception: a
    single image (not an index) that turns out to be for another platform stays in the store.
    """
    if platform:
        parse_platform(platform)
    reference = dataclasses.replace(parse(text), platform=platform)
    image = _fetched(
        store, reference, policy, insecure, progress, settings, signature, replace, warn or _ignore
    )
    if not fits(image.config, platform):
        actual = image.platform or "no platform"
        raise ImageError(f'image "{text}" is for the platform {actual}, not for {platform}')
    return image


def _fetched(
    store: Store,
    reference: Reference,
    policy: str,
    insecure: Set[str],
    progress: Progress | None,
    settings: Settings,
    signature: bytes | None,
    replace: bool,
    warn: Callable[[str], None],
) -> Image:
    """Fetch an image as ``fetch`` does, but do not check its platform."""
    permission = Permission(store, settings, insecure)
    image = _by_id(store, reference)
    if image:
        if signature is not None:
            message = f'verify the signature of image "{reference.text}"'
            hint = "give the name that was signed instead of the id"
            raise ImageError(f"{message}: --signature requires an image name", hint)
        permission.require_any(image.id)
        store.mark_used(image.id)
        return image
    if reference.kind == "path":
        reference = _detect_kind(store, reference, settings)
    permission.rule(reference.name)
    if signature is None and not _reads_source(reference, policy):
        image = _by_name(store, reference, permission, policy)
        if image:
            return image
    if reference.is_local:
        from ociruntime.images.formats.local_image import Claims, take_in
        from ociruntime.images.model.image_limits import Budget

        verifier = _verifier_for(reference, permission, signature, None)
        claims = Claims(permission, replace, warn)
        budget = Budget.at(store.path, settings.limits())
        return take_in(store, reference, progress or silent, claims, verifier, budget)
    progress = progress or silent
    return _from_registry(store, reference, insecure, progress, permission, signature, warn)


def _by_id(store: Store, reference: Reference) -> Image | None:
    """Return the stored image if ``reference`` is an image id; None if it may be a name.

    Raises ImageError if ``reference`` is a ``sha256:...`` id and the store has no such image.
    """
    if reference.kind == "id":
        return store.find(reference.digest, use=False)
    if reference.maybe_id and _is_likely_id(store, reference):
        try:
            return store.find(reference.maybe_id, use=False)
        except ImageError:
            pass  # the caller treats the reference as a name
    return None


def _is_likely_id(store: Store, reference: Reference) -> bool:
    """Return whether a reference of hexadecimal digits is an image id rather than a name.

    A name such as "ada" or "cafe" consists of hexadecimal digits.  An attacker could construct an
    image whose id begins with such a name; it must not be used instead of the image of that name.
    """
    if len(reference.text) >= SURE_DIGITS:
        return True
    if not any(letter.isdecimal() for letter in reference.text):
        return False
    try:
        store.record(reference.name)
    except ImageError:
        return True
    return False


def _by_name(
    store: Store, reference: Reference, permission: Permission, policy: str
) -> Image | None:
    """Return the stored image that has the reference's name, if the signature policy allows it.

    Returns None if the image must be fetched or verified first.  If ``policy`` is ``never``, raises
    ImageError instead.
    """
    try:
        image = store.find(reference.name, digest=reference.digest)
    except ImageError:
        if policy == "never":
            raise
        return None
    if policy == "never":
        permission.require(image.id, reference.name)
    elif not fits(image.config, reference.platform) or not permission.has(image.id, reference.name):
        return None
    return image


def _detect_kind(store: Store, reference: Reference, settings: Settings) -> Reference:
    """Detect the kind of the file at a reference's path; return the reference with that kind.

    If the file no longer exists, returns the reference of a stored image that was imported from
    this path.

    Raises HostError if the file cannot be read, ImageError if its format is unknown.
    """
    if not is_there(reference.path):
        for kind in LOCAL_KINDS:
            before = dataclasses.replace(reference, kind=kind)
            try:
                store.record(before.name)
            except ImageError:
                continue
            return before
    from ociruntime.images.formats.local_image import recognized
    from ociruntime.images.model.image_limits import Budget

    return recognized(reference, Budget.at(store.path, settings.limits()))


def _verifier_for(
    reference: Reference,
    permission: Permission,
    signature: bytes | None,
    sources: Sources | None,
) -> ImageVerifier:
    """Return a verifier for the signature of the image that ``reference`` names.

    If neither the policy nor the user requires a signature, the verifier accepts any image.
    """
    if signature is None and permission.rule(reference.name).kind == ACCEPT:
        from ociruntime.images.store.resolve_index import ImageVerifier

        return ImageVerifier()
    from ociruntime.images.trust.verify_signatures import SignatureVerifier

    return SignatureVerifier(reference, permission, signature, sources)


def _reads_source(reference: Reference, policy: str) -> bool:
    """Return whether to ask the registry or read the local file even if the image is stored.

    Local files are read again even if ``policy`` is ``new``, because they may have changed.
    """
    return policy == "update" or (
        policy == "new" and reference.is_local and is_there(reference.path)
    )


def _from_registry(
    store: Store,
    reference: Reference,
    insecure: Set[str],
    progress: Progress,
    permission: Permission,
    signature: bytes | None,
    warn: Callable[[str], None],
) -> Image:
    from ociruntime.images.model.image_limits import Budget
    from ociruntime.images.registry.http_client import HttpClient
    from ociruntime.images.registry.pull import update
    from ociruntime.images.registry.sources import Sources

    http = HttpClient(insecure)
    try:
        sources = Sources.of(reference, permission.settings, http, warn)
        verifier = _verifier_for(reference, permission, signature, sources)
        budget = Budget.at(store.path, permission.settings.limits())
        return update(store, reference, sources, verifier, progress, budget)
    finally:
        http.close()


def _ignore(warning: str) -> None:
    del warning


def look_up(store: Store, text: str) -> Record:
    """Return the database record of the image ``text``, which is an id, an id's prefix or a name.

    Raises ImageError if the store has no such image.
    """
    name = _full_name(store, text)
    forms = [text] if name in ("", text) else [text, name]
    if len(text) < SURE_DIGITS:
        forms.reverse()  # a short name may be the prefix of an id by accident
    failures = {}
    for form in forms:
        try:
            return store.record(form)
        except ImageError as failure:
            failures[form] = failure
    raise failures[text]


def _full_name(store: Store, text: str) -> str:
    """Return the canonical form of the image name ``text``; "" if ``text`` is not a valid name."""
    try:
        reference = parse(text)
        if reference.kind == "path":
            from ociruntime.images.formats.local_image import recognized
            from ociruntime.images.model.image_limits import Budget, Limits

            reference = recognized(reference, Budget.at(store.path, Limits()))
    except RuntimeFailure:
        return ""
    return reference.name
