"""Decide whether an image may be used: the policy's rule for its name, and its signatures.

What is signed is a JSON document ("simple signing") that names a digest and an image; a detached
OpenPGP signature may also be of the manifest itself.  An image counts as signed if its manifest is,
or an index that leads to it.
"""

from __future__ import annotations

from ociruntime.base.errors import ImageError, RegistryError
from ociruntime.images.model.digest import check_content
from ociruntime.images.model.manifest import load_document
from ociruntime.images.model.reference import Reference, parse
from ociruntime.images.registry.http_client import read_body
from ociruntime.images.registry.sources import Sources
from ociruntime.images.store.document import Document, Judge
from ociruntime.images.trust import cosign, openpgp
from ociruntime.images.trust.permission import Permission, openpgp_signer
from ociruntime.images.trust.policy import ACCEPT
from ociruntime.images.trust.trusted_keys import keys_for

_TYPES = ("atomic container signature", "cosign container image signature")


class SignatureJudge(Judge):
    """A judge by the policy's rule for a name.

    ``signature`` is given by the user, and must then be valid whatever the policy says; ``sources``
    is where cosign signatures are looked up.  The constructor refuses names that the policy
    rejects.
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
        return self.permission.has(id, self.reference.name)

    def __call__(self, documents: list[Document]) -> str:
        if self.permission.unsigned:
            return ""
        signer = ""
        if self.signature is not None:
            signer = openpgp_signer(self._judge_given(self.signature, documents))
            if self.rule.openpgp:
                return signer
        if self.rule.kind == ACCEPT:
            return signer
        faults: list[str] = []
        if self.rule.openpgp:
            faults.append("no OpenPGP signature was given, as --signature=FILE does")
        if self.rule.cosign:
            signer = self._signer_by_cosign(documents, faults)
            if signer:
                return signer
        name = self.reference.name
        raise ImageError(f'image "{name}" is not signed: {"; ".join(faults)}', self.rule.where)

    def _judge_given(self, signature: bytes, documents: list[Document]) -> str:
        """Return the fingerprint of the key that made the given signature."""
        name = self.reference.name
        keys = keys_for(name, self.permission.settings)
        if not keys:
            hint = "ocipod trust --prefix=PREFIX FILE adds one"
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
        """Return the signer by cosign; "" if there is none, with the reasons in ``faults``."""
        keys = cosign.load_keys(self.rule.cosign)
        if self.sources is None:
            faults.append("files have no signatures of cosign")
            return ""
        before = len(faults)
        for document in documents:
            tag = cosign.tag_of(document.digest)
            try:
                manifest = self.sources.manifest(tag).data
            except RegistryError as error:
                faults.append(error.message)
                continue
            for blob, signature in cosign.signatures(manifest):
                response, _ = self.sources.open_blob(blob.digest)
                payload = read_body(response, cosign.LONGEST_PAYLOAD)
                check_content(payload, blob.digest, f"a payload of {tag}")
                by = [key for key, signed in keys.items() if signed(signature, payload)]
                fault = self._payload_fault(payload, [document]) if by else "by another key"
                if not fault:
                    return by[0]
                faults.append(f"{tag}: {fault}")
        if len(faults) == before:
            faults.append("no signature of cosign")
        return ""

    def _payload_fault(self, payload: bytes, documents: list[Document]) -> str:
        """Return how a signed document differs from this image; "" if it does not."""
        said = load_document(payload, "what was signed").get("critical")
        try:
            if not isinstance(said, dict):
                raise TypeError
            kind = said["type"]
            digest = said["image"]["docker-manifest-digest"]
            name = said["identity"]["docker-reference"]
        except (KeyError, TypeError):
            return "the document has not the form of simple signing"
        if kind not in _TYPES:
            return f'the signature is a "{kind}"'
        if digest not in [document.digest for document in documents]:
            return f"the signature is for {digest}"
        return identity_fault(name, self.reference)


def identity_fault(signed: object, reference: Reference) -> str:
    """Return why the signed identity ``signed`` does not match ``reference``; "" if it does.

    The repository must match, and the tag too if both have one and no digest was requested.  Local
    files have no name of their own: there only the digest counts.
    """
    if reference.is_local:
        return ""
    if not isinstance(signed, str):
        return "the signature names no image"
    try:
        other = parse(f"docker://{signed}")
    except ImageError:
        return f'the signature is about "{signed}"'
    has_tag = ":" in signed.rpartition("/")[2]
    same = (other.host, other.repository) == (reference.host, reference.repository)
    if same and (not has_tag or reference.digest or other.tag == reference.tag):
        return ""
    return f'the signature is about "{signed}"'
