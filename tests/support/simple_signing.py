"""Simple signing documents, cosign signatures of them, and a policy that requires them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.support import images
from tests.support.registry import Registry

ANNOTATION = "dev.cosignproject.cosign/signature"
PAYLOAD_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"


def payload(digest: str, name: str, kind: str = "atomic container signature") -> bytes:
    critical = {
        "type": kind,
        "image": {"docker-manifest-digest": digest},
        "identity": {"docker-reference": name},
    }
    return json.dumps({"critical": critical, "optional": {"creator": "tests"}}).encode()


def cosign(
    registry: Registry, repository: str, digest: str, name: str, key: ec.EllipticCurvePrivateKey
) -> None:
    """Push a signature like ``cosign sign`` without a transparency log."""
    document = payload(digest, name, "cosign container image signature")
    config = b"{}"
    for blob in (document, config):
        registry.blobs[repository, images.digest(blob)] = blob
    signature = base64.b64encode(key.sign(document, ec.ECDSA(SHA256()))).decode()
    layer = images.descriptor(PAYLOAD_TYPE, document) | {"annotations": {ANNOTATION: signature}}
    manifest = {
        "schemaVersion": 2,
        "mediaType": images.OCI_MANIFEST,
        "config": images.descriptor(f"{images.OCI}.config.v1+json", config),
        "layers": [layer],
    }
    tag = f"{digest.replace(':', '-')}.sig"
    registry.push_manifest(repository, tag, images.to_json(manifest), images.OCI_MANIFEST)


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the content of a key file for a policy."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def set_rule(work: Path, prefix: str, rule: object) -> None:
    (work / "config" / "policy.json").write_text(json.dumps({"prefixes": {prefix: rule}}))
