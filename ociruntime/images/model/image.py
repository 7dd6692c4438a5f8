"""Types for images: descriptors, layers, images and the store's records of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Called often with (label such as "unpacking layer 2 of 3", bytes done, total bytes or 0 if
# unknown); the callback itself limits how often it prints.
Progress = Callable[[str, int, int], None]
Json = dict[str, Any]


@dataclass(frozen=True)
class Descriptor:
    """An OCI descriptor, which refers to a blob; ``size`` is in bytes."""

    media_type: str
    digest: str
    size: int


@dataclass(frozen=True)
class Layer:
    """A layer of a stored image; ``digest`` and ``size`` (bytes) describe the compressed blob.

    ``diff_id`` is the digest of the uncompressed tar, ``compression`` "", "gzip" or "zstd".
    """

    digest: str
    size: int
    media_type: str
    diff_id: str
    compression: str


@dataclass(frozen=True)
class Image:
    """An image for a single platform.

    ``id`` is the digest of its manifest.  ``name`` is the one it was looked up by, else its first
    name, or "".  ``size`` is the total size of its blobs in bytes.  ``imported`` and ``used`` (last
    use) are in seconds since the epoch.  ``index`` is the digest of the index (manifest list) from
    which it was chosen, or "".
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
        """The image's platform, for example ``linux/arm64/v8``."""
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
        """The image configuration's member ``config``: Env, Cmd, User and so on."""
        app = self.config.get("config")
        return app if isinstance(app, dict) else {}


@dataclass(frozen=True)
class Record:
    """An image's entry in the store's database, valid even if its blobs are damaged.

    ``origins`` are pairs (name at import, signer verified then or "" if none was required).
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
    """Report nothing: a Progress callback for callers that show no progress."""
    del kind, done, total
