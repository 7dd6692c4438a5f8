"""The supported media types of indexes, manifests, configurations and layers."""

from __future__ import annotations

from ociruntime.base.errors import ImageError

_OCI = "application/vnd.oci.image"
_DOCKER = "application/vnd.docker"

OCI_INDEX = f"{_OCI}.index.v1+json"
OCI_MANIFEST = f"{_OCI}.manifest.v1+json"
OCI_CONFIG = f"{_OCI}.config.v1+json"
OCI_LAYER = f"{_OCI}.layer.v1.tar"
DOCKER_INDEX = f"{_DOCKER}.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = f"{_DOCKER}.distribution.manifest.v2+json"
DOCKER_CONFIG = f"{_DOCKER}.container.image.v1+json"
DOCKER_LAYER = f"{_DOCKER}.image.rootfs.diff.tar.gzip"

INDEXES = (OCI_INDEX, DOCKER_INDEX)
MANIFESTS = (OCI_MANIFEST, DOCKER_MANIFEST)
CONFIGS = (OCI_CONFIG, DOCKER_CONFIG)

# Media types of layers -> compression: "", "gzip" or "zstd".
LAYERS = {
    OCI_LAYER: "",
    f"{OCI_LAYER}+gzip": "gzip",
    f"{OCI_LAYER}+zstd": "zstd",
    f"{_DOCKER}.image.rootfs.diff.tar": "",
    DOCKER_LAYER: "gzip",
    f"{_DOCKER}.image.rootfs.diff.tar.zstd": "zstd",
}
# Foreign layers: registries may not distribute them, so they would have to be fetched elsewhere.
_NOT_DISTRIBUTABLE = (
    f"{_OCI}.layer.nondistributable.v1.tar",
    f"{_DOCKER}.image.rootfs.foreign.diff.tar",
)


def compression(media_type: str, what: str = "layer") -> str:
    """Return the compression of a layer's media type: "", "gzip" or "zstd".

    Raises ImageError for any other media type; ``what`` names the layer in the error message.
    """
    kind = LAYERS.get(media_type)
    if kind is not None:
        return kind
    if media_type.startswith(_NOT_DISTRIBUTABLE):
        hint = "non-distributable layers are not supported"
        raise ImageError(f'{what}: unsupported mediaType "{media_type}"', hint)
    hint = f"supported: {', '.join(LAYERS)}"
    raise ImageError(f'{what}: unsupported mediaType "{media_type}"', hint)
