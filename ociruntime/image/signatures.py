"""Whether an image may be taken: the policy's rule for its name, and signatures if it asks for any.

What is signed is a document of JSON ("simple signing") that names a digest and an image; that of a
detached OpenPGP signature may also be the manifest itself.  An image counts as signed if its
manifest is, or an index that leads to it.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from ociruntime.errors import ImageError, RegistryError
from ociruntime.image import cosign, openpgp, policy
from ociruntime.image.digest import check_content
from ociruntime.image.http_client import read_body
from ociruntime.image.manifest import load_document
from ociruntime.image.reference import Reference, parse
from ociruntime.image.trusted_keys import keys_for

if TYPE_CHECKING:
    from ociruntime.image.document import Document
    from ociruntime.image.settings import Settings
    from ociruntime.image.sources import Sources

_TYPES = ("atomic container signature", "cosign container image signature")


class SignatureJudge:
    """``judge(documents)`` raises ImageError unless the image may be taken under that name.

    The documents lead to the image, the one that its name means first.  ``signature`` is what the
    user has given, and then has to be valid whatever the policy says; ``sources`` is where the
    signatures of cosign are looked for.  Made, it has refused what the policy rejects.
    """

    def __init__(
        self,
        reference: Reference,
        settings: Settings,
        insecure: Set[str],
        signature: bytes | None = None,
        sources: Sources | None = None,
    ) -> None:
        self.reference = reference
        self.settings = settings
        self.signature = signature
        self.sources = sources
        self.rule = policy.load_policy(settings).rule(reference.name)
        if self.rule.kind == policy.REJECT:
            raise ImageError(f'image "{reference.name}" is rejected', self.rule.where)
        self.unneeded = "image" in insecure

    def __call__(self, documents: list[Document]) -> None:
        if self.unneeded:
            return
        if self.signature is not None:
            self._judge_given(self.signature, documents)
            if self.rule.kind == policy.ACCEPT or self.rule.openpgp:
                return
        if self.rule.kind == policy.ACCEPT:
            return
        faults = []
        if self.rule.openpgp:
            faults.append("no OpenPGP signature was given, as --signature=FILE does")
        if self.rule.cosign:
            fault = self._cosign_fault(documents)
            if not fault:
                return
            faults.append(fault)
        name = self.reference.name
        raise ImageError(f'image "{name}" is not signed: {"; ".join(faults)}', self.rule.where)

    def _judge_given(self, signature: bytes, documents: list[Document]) -> None:
        name = self.reference.name
        keys = keys_for(name, self.settings)
        if not keys:
            hint = "ocipod trust --prefix=PREFIX FILE adds one"
            raise ImageError(f'no OpenPGP key is trusted for image "{name}"', hint)
        if not openpgp.is_detached(signature):
            _, payload = openpgp.verify(signature, None, keys)
            fault = self._payload_fault(payload, documents)
            if fault:
                raise ImageError(f'image "{name}" is not what was signed: {fault}')
            return
        last = None
        for document in documents:
            try:
                openpgp.verify(signature, document.data, keys)
                return
            except ImageError as error:
                last = error
        assert last
        raise last

    def _cosign_fault(self, documents: list[Document]) -> str:
        """Why no signature of cosign holds; "" if one does."""
        keys = cosign.load_keys(self.rule.cosign)
        if self.sources is None:
            return "files have no signatures of cosign"
        faults = []
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
                if not any(has_signed(signature, payload) for has_signed in keys):
                    faults.append(f"{tag}: by another key")
                    continue
                fault = self._payload_fault(payload, [document])
                if not fault:
                    return ""
                faults.append(f"{tag}: {fault}")
        return "; ".join(faults) or "no signature of cosign"

    def _payload_fault(self, payload: bytes, documents: list[Document]) -> str:
        """What a signed document says of another image than this one; "" if it is this one."""
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
            return f"the signature is about {digest}"
        return identity_fault(name, self.reference)


def identity_fault(signed: object, reference: Reference) -> str:
    """Why an image signed as ``signed`` is not the one of that name; "" if it is.

    The repository has to be the same; the tag too, if both have one and no digest was asked for.
    A file has no name of its own: what it holds is told by the digest alone.
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
