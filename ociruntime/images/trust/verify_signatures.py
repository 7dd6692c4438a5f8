"""Verify the signatures of a fetched image, as the policy's rule for its name requires.

A signature covers a JSON document ("simple signing") that names a digest and an image.  A detached
OpenPGP signature may also cover the manifest itself.  An image counts as signed if its manifest, or
an index that lists the image, is signed.
"""

from __future__ import annotations

from ociruntime.base.errors import ImageError, RegistryError
from ociruntime.images.model.digest import check_content
from ociruntime.images.model.manifest import load_document
from ociruntime.images.model.reference import Reference, parse
from ociruntime.images.registry.http_client import read_body
from ociruntime.images.registry.sources import Sources
from ociruntime.images.store.resolve_index import Document, ImageVerifier
from ociruntime.images.trust import cosign, openpgp
from ociruntime.images.trust.check_stored_image import Permission, openpgp_signer
from ociruntime.images.trust.policy import ACCEPT
from ociruntime.images.trust.trusted_keys import keys_for

_TYPES = ("atomic container signature", "cosign container image signature")


class SignatureVerifier(ImageVerifier):
    """Verify a fetched image's signatures, as the policy's rule for its name requires.

    ``signature`` is the OpenPGP signature that the user gave, or None; it must be valid even if the
    policy requires no signature.  cosign signatures are downloaded from ``sources``.  The
    constructor raises ImageError if the policy rejects the image's name.
    """

    def __init__(
        self,
        reference: Reference,
        permission: Permission,
        signature: bytes | None = None,
        sources: Sources | None = None,
    ) -> None:
        self.reference = reference
        self.permission = permission
        self.signature = signature
        self.sources = sources
        self.rule = permission.rule(reference.name)

    def knows(self, id: str) -> bool:
        # A signature that the user gives is verified in any case: the store may have the image
        # without one, or with that of another key.
        return self.signature is None and self.permission.has(id, self.reference.name)

    def __call__(self, documents: list[Document]) -> str:
        if self.permission.unsigned:
            return ""
        signer = ""
        if self.signature is not None:
            signer = openpgp_signer(self._verify_given(self.signature, documents))
            if self.rule.openpgp:
                return signer
        if self.rule.kind == ACCEPT:
            return signer
        faults: list[str] = []
        if self.rule.openpgp:
            faults.append("no OpenPGP signature was given with --signature=FILE")
        if self.rule.cosign:
            signer = self._signer_by_cosign(documents, faults)
            if signer:
                return signer
        name = self.reference.name
        message = f'image "{name}" is not signed as the policy requires: {"; ".join(faults)}'
        raise ImageError(message, f"see {self.rule.where}")

    def _verify_given(self, signature: bytes, documents: list[Document]) -> str:
        """Verify the OpenPGP signature that the user gave; return the fingerprint of its key.

        Raises ImageError if no key is trusted for the image, or if the signature is valid for none
        of ``documents``.
        """
        name = self.reference.name
        keys = keys_for(name, self.permission.settings)
        if not keys:
            hint = "add a key with ocipod trust --prefix=PREFIX FILE"
            raise ImageError(f'no OpenPGP key is trusted for image "{name}"', hint)
        if not openpgp.is_detached(signature):
            fingerprint, payload = openpgp.verify(signature, None, keys)
            fault = self._payload_fault(payload, documents)
            if fault:
                raise ImageError(f'image "{name}" does not match its signature: {fault}')
            return fingerprint
        last = None
        for document in documents:
            try:
                return openpgp.verify(signature, document.data, keys)[0]
            except ImageError as error:
                last = error
        assert last
        raise last

    def _signer_by_cosign(self, documents: list[Document], faults: list[str]) -> str:
        """Return the signer of a valid cosign signature of one of ``documents``.

        If there is no valid signature, adds the reasons to ``faults`` and returns "".
        """
        keys = cosign.load_keys(self.rule.cosign)
        if self.sources is None:
            faults.append("local files cannot have cosign signatures")
            return ""
        before = len(faults)
        for document in documents:
            tag = cosign.tag_of(document.digest)
            try:
                manifest = self.sources.manifest(tag).data
            except RegistryError as error:
                faults.append(error.message)
                continue
            for blob, signature in cosign.signatures(manifest, f"cosign signatures {tag}"):
                response, _ = self.sources.open_blob(blob.digest)
                payload = read_body(response, cosign.LONGEST_PAYLOAD)
                check_content(payload, blob.digest, f"payload of cosign signature {tag}")
                by = [key for key, signed in keys.items() if signed(signature, payload)]
                fault = self._payload_fault(payload, [document]) if by else "signed by another key"
                if not fault:
                    return by[0]
                faults.append(f"{tag}: {fault}")
        if len(faults) == before:
            faults.append("no cosign signature")
        return ""

    def _payload_fault(self, payload: bytes, documents: list[Document]) -> str:
        """Return why ``payload``, a signed document, does not match the image; "" if it does.

        The payload must contain the digest of one of ``documents`` and the name of the image.
        """
        critical = load_document(payload, "signed document").get("critical")
        try:
            if not isinstance(critical, dict):
                raise TypeError
            kind = critical["type"]
            digest = critical["image"]["docker-manifest-digest"]
            name = critical["identity"]["docker-reference"]
        except (KeyError, TypeError):
            return "the signed document is not in simple signing format"
        if kind not in _TYPES:
            return f'unsupported type of signature "{kind}"'
        if digest not in [document.digest for document in documents]:
            return f"the signature is for {digest}"
        return identity_fault(name, self.reference)


def identity_fault(signed: object, reference: Reference) -> str:
    """Return why the image name in a signature does not match ``reference``; "" if it does.

    ``signed`` is the name in the signature.  Its repository must match.  Its tag, if it has one,
    must match unless the reference has a digest.  For local files, every name matches: only the
    digest counts.
    """
    if reference.is_local:
        return ""
    if not isinstance(signed, str):
        return "the signature names no image"
    try:
        other = parse(f"docker://{signed}")
    except ImageError:
        return f'the signature is for "{signed}"'
    has_tag = ":" in signed.rpartition("/")[2]
    same = (other.host, other.repository) == (reference.host, reference.repository)
    if same and (not has_tag or reference.digest or other.tag == reference.tag):
        return ""
    return f'the signature is for "{signed}"'
