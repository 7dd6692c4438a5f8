"""Types for images: descriptors, layers, images, and the records of images in the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# A callback that gets (label such as "unpacking layer 2 of 3", bytes done, total bytes or 0 if
# unknown).  It is called often, and itself limits how often it prints.
Progress = Callable[[str, int, int], None]
Json = dict[str, Any]


@dataclass(frozen=True)
class Descriptor:
    """An OCI descriptor of a blob: its media type, digest and size in bytes."""

    media_type: str
    digest: str
    size: int


@dataclass(frozen=True)
class Layer:
    """A layer of a stored image.

    ``digest`` and ``size`` (bytes) describe the blob, which may be compressed.  ``diff_id`` is
    the digest of the uncompressed tar archive.  ``compression`` is "", "gzip" or "zstd".
    """

    digest: str
    size: int
    media_type: str
    diff_id: str
    compression: str


@dataclass(frozen=True)
class Image:
    """An image for a single platform.

    ``id`` is the digest of its manifest.  ``name`` is the name by which it was looked up, or else
    its first name, or "" if it has no name.  ``size`` is the total size of its blobs in bytes.
    ``imported`` and ``used`` (last use) are in seconds since the epoch.  ``index`` is the digest of
    the index (manifest list) that lists the image, or "".
    """

    id: str
    name: str
    names: tuple[str, ...]
    manifest: Json
    config: Json
    config_digest: str
    layers: tuple[Layer, ...]
    chain_id: str
    size: int
    imported: float
    used: float
    index: str

    @property
    def platform(self) -> str:
        """The platform of the image, such as ``linux/arm64/v8``."""
        parts = (self.config.get(key) for key in ("os", "architecture", "variant"))
        return "/".join(str(part) for part in parts if part)

    @property
    def has_healthcheck(self) -> bool:
        """True if the image defines a HEALTHCHECK (which ociruntime does not run)."""
        check = self.app.get("Healthcheck")
        test = check.get("Test") if isinstance(check, dict) else None
        return isinstance(test, list) and bool(test) and test[0] != "NONE"

    @property
    def app(self) -> Json:
        """The member ``config`` of the image configuration: Env, Cmd, User and so on."""
        app = self.config.get("config")
        return app if isinstance(app, dict) else {}


@dataclass(frozen=True)
class Record:
    """The record of an image in the store's database, readable even if its blobs are damaged.

    ``origins`` contains (name, signer) for each name under which the image was imported.  The
    import verified a signature by this signer; "" means that no signature was required.
    """

    id: str
    name: str
    names: tuple[str, ...]
    size: int
    imported: float
    used: float
    index: str
    origins: tuple[tuple[str, str], ...] = ()


def silent(kind: str, done: int, total: int) -> None:
    """Do nothing: a ``Progress`` callback for callers that show no progress."""
    del kind, done, total
