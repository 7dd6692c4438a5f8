"""Parse and validate the documents of an image; pure.

Everything raises ImageError for a document that is malformed or of an unsupported kind.
"""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import ImageError
from ociruntime.base.json_text import load
from ociruntime.images.model import media_types
from ociruntime.images.model.digest import check_digest
from ociruntime.images.model.image import Descriptor, Json, Layer

LARGEST_DOCUMENT = 4 << 20  # bytes, the limit of common registries
MOST_LAYERS = 1000


def load_document(data: bytes, what: str) -> Json:
    """Parse ``data`` to a JSON object; ``what`` describes it in errors."""
    if len(data) > LARGEST_DOCUMENT:
        raise ImageError(f"{what} is too large: {len(data)} bytes", f"up to {LARGEST_DOCUMENT}")
    try:
        document = load(data)
    except (ValueError, RecursionError) as error:
        raise ImageError(f"{what} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ImageError(f"{what} is not a JSON object")
    return document


def descriptor(value: object, what: str) -> Descriptor:
    """Parse a complete descriptor; ``what`` describes its target in errors."""
    if not isinstance(value, dict):
        raise ImageError(f"the descriptor of {what} must be a JSON object")
    size = value.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ImageError(f"{what} has no valid size")
    media_type = value.get("mediaType")
    if not isinstance(media_type, str):
        raise ImageError(f"{what} has no media type")
    return Descriptor(media_type, check_digest(value.get("digest")), size)


def is_index(document: Json, media_type: str = "") -> bool:
    """Return whether the document is an index; ``media_type`` is what the sender stated."""
    given = document.get("mediaType", media_type)
    return given in media_types.INDEXES or ("manifests" in document and "layers" not in document)


def parse_manifest(data: bytes) -> tuple[Json, Descriptor, list[Descriptor]]:
    """Return the document, its configuration and its layers, lowest first."""
    document = load_document(data, "the manifest")
    if document.get("schemaVersion") != 2:
        version = document.get("schemaVersion")
        raise ImageError(f"the manifest has schemaVersion {version}", "supported: 2")
    if is_index(document):
        raise ImageError("expected an image manifest, got an index")
    media_type = document.get("mediaType", media_types.OCI_MANIFEST)
    if media_type not in media_types.MANIFESTS:
        raise ImageError(f'unsupported media type of a manifest: "{media_type}"')
    config = descriptor(document.get("config"), "the configuration")
    if config.media_type not in media_types.CONFIGS:
        hint = "the artifact may not be a container image"
        raise ImageError(f'unsupported media type of a configuration: "{config.media_type}"', hint)
    if config.size > LARGEST_DOCUMENT:
        raise ImageError(f"the configuration is too large: {config.size} bytes")
    layers = document.get("layers")
    if not isinstance(layers, list) or len(layers) > MOST_LAYERS:
        raise ImageError("the manifest has no list of layers", f"up to {MOST_LAYERS}")
    found = [descriptor(layer, f"layer {number}") for number, layer in enumerate(layers, 1)]
    for layer in found:
        media_types.compression(layer.media_type)
    return document, config, found


def parse_config(data: bytes, layers: list[Descriptor]) -> tuple[Json, tuple[Layer, ...]]:
    """Return the configuration, and the layers with their diff_ids."""
    document = load_document(data, "the configuration")
    rootfs = document.get("rootfs")
    diff_ids = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    if not isinstance(diff_ids, list) or len(diff_ids) != len(layers):
        count = len(diff_ids) if isinstance(diff_ids, list) else 0
        raise ImageError(f"the image has {len(layers)} layers and names {count} in rootfs.diff_ids")
    if document.get("os", "linux") != "linux":
        raise ImageError(f'the image is made for "{document["os"]}"', "only linux can be run")
    _check_app(document.get("config"))
    joined = zip(layers, diff_ids, strict=True)
    return document, tuple([_layer(layer, check_digest(diff_id)) for layer, diff_id in joined])


def _layer(of: Descriptor, diff_id: str) -> Layer:
    kind = media_types.compression(of.media_type)
    return Layer(of.digest, of.size, of.media_type, diff_id, kind)


def _check_app(app: object) -> None:
    """Check the types of members that others rely on."""
    if app is None:
        return
    if not isinstance(app, dict):
        raise ImageError("the configuration's member config is not a JSON object")
    for key in ("Entrypoint", "Cmd", "Env"):
        if not _is_list_of_text(app.get(key)):
            raise ImageError(f"config.{key} of the image is not a list of strings")
    for key in ("User", "WorkingDir", "StopSignal"):
        if not isinstance(app.get(key), str | None):
            raise ImageError(f"config.{key} of the image is not a string")
    for key in ("Volumes", "ExposedPorts", "Labels"):
        if not isinstance(app.get(key), dict | None):
            raise ImageError(f"config.{key} of the image is not a JSON object")


def _is_list_of_text(value: Any) -> bool:  # noqa: ANN401
    return value is None or (
        isinstance(value, list) and all(isinstance(member, str) for member in value)
    )
