"""Parse and verify cosign signatures made with an ECDSA P-256 key pair.

Keyless signatures are not supported. cosign stores signatures in the image's repository, as an
image with the tag ``sha256-HEX.sig``.  Each layer of this signature image is a JSON payload, which
names the signed digest.  An annotation of the layer contains the signature of the payload.
verify_signatures.py checks the content of the payload.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.model.image import Descriptor
from ociruntime.images.model.manifest import descriptor, load_document
from ociruntime.images.trust.check_stored_image import cosign_signer

if TYPE_CHECKING:  # cryptography is an extra: commands that check no signature run without it
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

PAYLOAD = "application/vnd.dev.cosign.simplesigning.v1+json"
ANNOTATION = "dev.cosignproject.cosign/signature"
LONGEST_PAYLOAD = 1 << 20  # bytes
_MOST_SIGNATURES = 100


def tag_of(digest: str) -> str:
    """Return the tag of cosign's signature image for ``digest``: ``sha256-HEX.sig``."""
    return f"{digest.replace(':', '-')}.sig"


def signatures(
    manifest: bytes, what: str = "cosign signatures"
) -> Iterator[tuple[Descriptor, bytes]]:
    """Yield (descriptor of the signed payload, signature) for each signature in a signature image.

    ``manifest`` is the manifest of the signature image; layers that are not signatures are skipped.
    Raises ImageError if the manifest is malformed; ``what`` names it in the error message.
    """
    layers = load_document(manifest, what).get("layers")
    if not isinstance(layers, list):
        raise ImageError(f"{what}: layers must be a list")
    for layer in layers[:_MOST_SIGNATURES]:
        payload = descriptor(layer, f"{what}: layers")
        annotations = layer.get("annotations") or {}
        text = annotations.get(ANNOTATION) if isinstance(annotations, dict) else None
        if payload.media_type == PAYLOAD and payload.size <= LONGEST_PAYLOAD and text:
            try:
                yield payload, base64.b64decode(text, validate=True)
            except (binascii.Error, TypeError, ValueError):
                continue


def load_keys(paths: tuple[str, ...]) -> dict[str, Callable[[bytes, bytes], bool]]:
    """Load cosign's public keys from PEM files; return {name of the signer: verifier}.

    ``verifier(signature, payload)`` returns whether the signature is valid.  Raises HostError if a
    file cannot be read, ImageError if it is not an ECDSA P-256 public key or if the Python package
    cryptography is missing.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError:
        hint = "pip install 'ociruntime[image]'"
        raise ImageError("cosign signatures need the Python package cryptography", hint) from None
    verifiers = {}
    for path in paths:
        try:
            with open(path, "rb") as file:
                data = file.read()
            key = load_pem_public_key(data)
        except OSError as error:
            raise HostError(f'read cosign key "{path}"', error) from None
        except (ValueError, UnsupportedAlgorithm) as error:
            message = f"not a public key in PEM format: {error}"
            raise ImageError(f'read cosign key "{path}": {message}') from None
        if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp256r1":
            raise ImageError(f'read cosign key "{path}": not an ECDSA P-256 key')
        verifiers[cosign_signer(data)] = _verifier(key)
    return verifiers


def _verifier(key: EllipticCurvePublicKey) -> Callable[[bytes, bytes], bool]:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.hashes import SHA256

    def has_signed(signature: bytes, payload: bytes) -> bool:
        try:
            key.verify(signature, payload, ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True

    return has_signed
