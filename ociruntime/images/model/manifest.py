"""Parse and validate an image's manifest and configuration.

Every function raises ImageError for a malformed or unsupported document.  ``what`` names the
document in the error message, for example "manifest sha256:...".
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
    """Parse ``data`` as a JSON object of at most LARGEST_DOCUMENT bytes.

    Raises ImageError if it is not; ``what`` names the document in the error message.
    """
    if len(data) > LARGEST_DOCUMENT:
        hint = f"the limit is {LARGEST_DOCUMENT} bytes"
        raise ImageError(f"{what} is too large: {len(data)} bytes", hint)
    try:
        document = load(data)
    except (ValueError, RecursionError) as error:
        raise ImageError(f"{what} is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise ImageError(f"{what} is not a JSON object")
    return document


def descriptor(value: object, what: str) -> Descriptor:
    """Parse a descriptor, a JSON object with ``mediaType``, ``digest`` and ``size``.

    Raises ImageError if it is invalid; ``what`` names the descriptor in the error message.
    """
    if not isinstance(value, dict):
        raise ImageError(f"{what} must be a JSON object with mediaType, digest and size")
    size = value.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ImageError(f"{what}: size must be a non-negative integer")
    media_type = value.get("mediaType")
    if not isinstance(media_type, str):
        raise ImageError(f"{what}: mediaType must be a string")
    return Descriptor(media_type, check_digest(value.get("digest"), what), size)


def parse_manifest(
    data: bytes, what: str = "manifest"
) -> tuple[Json, Descriptor, list[Descriptor]]:
    """Parse an image manifest; return (document, descriptor of the configuration, layers).

    ``layers`` is the list of the layers' descriptors, lowest layer first.  Raises ImageError if the
    manifest is invalid or not supported.
    """
    document = load_document(data, what)
    if document.get("schemaVersion") != 2:
        version = document.get("schemaVersion")
        raise ImageError(f"{what}: unsupported schemaVersion {version}", "supported: 2")
    named_index = document.get("mediaType") in media_types.INDEXES
    if named_index or ("manifests" in document and "layers" not in document):
        raise ImageError(f"{what} is an image index, but an image manifest is required")
    media_type = document.get("mediaType", media_types.OCI_MANIFEST)
    if media_type not in media_types.MANIFESTS:
        hint = f"supported: {', '.join(media_types.MANIFESTS)}"
        raise ImageError(f'{what}: unsupported mediaType "{media_type}"', hint)
    config = descriptor(document.get("config"), f"{what}: config")
    if config.media_type not in media_types.CONFIGS:
        hint = "the artifact may not be a container image"
        raise ImageError(f'{what}: config: unsupported mediaType "{config.media_type}"', hint)
    if config.size > LARGEST_DOCUMENT:
        hint = f"the limit is {LARGEST_DOCUMENT} bytes"
        raise ImageError(f"{what}: config is too large: {config.size} bytes", hint)
    layers = document.get("layers")
    if not isinstance(layers, list) or len(layers) > MOST_LAYERS:
        raise ImageError(f"{what}: layers must be a list of at most {MOST_LAYERS} descriptors")
    descriptors = [descriptor(layer, f"{what}: layers[{at}]") for at, layer in enumerate(layers)]
    for at, layer in enumerate(descriptors):
        media_types.compression(layer.media_type, f"{what}: layers[{at}]")
    return document, config, descriptors


def parse_config(
    data: bytes, layers: list[Descriptor], what: str = "image configuration"
) -> tuple[Json, tuple[Layer, ...]]:
    """Parse an image configuration; return (document, layers with their diff_ids).

    ``layers`` contains the layers' descriptors from the manifest.  Raises ImageError if the
    configuration is invalid or does not match the layers.
    """
    document = load_document(data, what)
    rootfs = document.get("rootfs")
    diff_ids = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    if not isinstance(diff_ids, list) or len(diff_ids) != len(layers):
        count = len(diff_ids) if isinstance(diff_ids, list) else 0
        raise ImageError(
            f"{what}: rootfs.diff_ids has {count} entries, "
            f"but the manifest has {len(layers)} layers"
        )
    if document.get("os", "linux") != "linux":
        raise ImageError(f'{what}: unsupported os "{document["os"]}"', "supported: linux")
    _check_app(document.get("config"), what)
    where = f"{what}: rootfs.diff_ids"
    joined = zip(layers, diff_ids, strict=True)
    return document, tuple(
        [_layer(layer, check_digest(diff_id, where)) for layer, diff_id in joined]
    )


def _layer(of: Descriptor, diff_id: str) -> Layer:
    kind = media_types.compression(of.media_type)
    return Layer(of.digest, of.size, of.media_type, diff_id, kind)


def _check_app(app: object, what: str) -> None:
    """Check ``app``, the member ``config`` of an image configuration; None means it is missing.

    Raises ImageError if a member that ociruntime uses, such as Env or Cmd, is invalid; ``what``
    names the configuration in the error message.
    """
    if app is None:
        return
    if not isinstance(app, dict):
        raise ImageError(f"{what}: config must be a JSON object")
    for key in ("Entrypoint", "Cmd", "Env"):
        if not _is_list_of_text(app.get(key)):
            raise ImageError(f"{what}: config.{key} must be a list of strings")
    for key in ("User", "WorkingDir", "StopSignal"):
        if not isinstance(app.get(key), str | None):
            raise ImageError(f"{what}: config.{key} must be a string")
    for key in ("Volumes", "ExposedPorts", "Labels"):
        if not isinstance(app.get(key), dict | None):
            raise ImageError(f"{what}: config.{key} must be a JSON object")


def _is_list_of_text(value: Any) -> bool:  # noqa: ANN401
    return value is None or (
        isinstance(value, list) and all(isinstance(member, str) for member in value)
    )
