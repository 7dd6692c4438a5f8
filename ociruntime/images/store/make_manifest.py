"""Create OCI image configurations and manifests for images imported from other formats."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ociruntime.images.model import media_types
from ociruntime.images.model.digest import digest_of
from ociruntime.images.model.image import Json
from ociruntime.images.model.platforms import host
from ociruntime.images.store.import_image import Incoming
from ociruntime.images.store.resolve_index import Document


@dataclass(frozen=True, slots=True)
class StoredLayer:
    """A layer in the store: the digest and the size in bytes of its blob, which may be compressed.

    ``diff_id`` is the digest of the uncompressed tar archive; ``compression`` is "", "gzip" or
    "zstd".
    """

    digest: str
    size: int
    diff_id: str
    compression: str = ""


def minimal_config(layers: list[StoredLayer], app: Json | None = None) -> Json:
    """Return an image configuration for this machine's platform.

    ``app`` becomes the configuration's member ``config``.  The configuration has no timestamps, so
    that the same files always result in the same image id.
    """
    return {
        "architecture": host()[0][0],
        "os": "linux",
        "config": app or {},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
    }


def add_documents(
    incoming: Incoming,
    config: Json,
    layers: list[StoredLayer],
    annotations: dict[str, str] | None = None,
) -> Document:
    """Add an image configuration and a manifest for it to the import; return the manifest.

    Raises HostError if a file cannot be written, ImageError if a limit is exceeded.
    """
    data = to_bytes(config)
    incoming.add_bytes(data)
    manifest = manifest_of(data, layers, annotations)
    incoming.add_bytes(manifest.data, manifest.digest)
    return manifest


def manifest_of(
    config: bytes, layers: list[StoredLayer], annotations: dict[str, str] | None = None
) -> Document:
    """Return the manifest of an image.

    ``config`` is its serialised configuration; ``layers`` lists its layers, lowest first.
    """
    document: Json = {
        "schemaVersion": 2,
        "mediaType": media_types.OCI_MANIFEST,
        "config": _descriptor(media_types.OCI_CONFIG, digest_of(config), len(config)),
        "layers": [
            _descriptor(
                media_types.OCI_LAYER + (f"+{layer.compression}" if layer.compression else ""),
                layer.digest,
                layer.size,
            )
            for layer in layers
        ],
    }
    if annotations:
        document["annotations"] = annotations
    data = to_bytes(document)
    return Document(data, digest_of(data), media_types.OCI_MANIFEST)


def to_bytes(document: Json) -> bytes:
    """Serialise a document as reproducible JSON: with sorted members and without whitespace."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _descriptor(media_type: str, digest: str, size: int) -> Json:
    return {"mediaType": media_type, "digest": digest, "size": size}
