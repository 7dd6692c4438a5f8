"""An image as the store knows it."""

from __future__ import annotations

from ociruntime.images.model.value_class import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]


@frozen
class Descriptor:
    """What refers to a blob; ``size`` in bytes."""

    media_type: str
    digest: str
    size: int


@frozen
class Layer:
    """``diff_id`` is the digest of the plain tar, ``compression`` empty, ``gzip`` or ``zstd``."""

    digest: str
    size: int
    media_type: str
    diff_id: str
    compression: str


@frozen
class Image:
    """One image for one platform.

    ``id`` is the digest of its manifest.  ``name`` is the one it was found by, else its first
    one, else empty.  ``size`` counts the bytes of its blobs, ``imported`` and ``used`` are
    seconds since the epoch, ``index`` is the digest of the index it was chosen from, or empty.
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
        """Such as ``linux/arm64/v8``."""
        parts = (self.config.get(key) for key in ("os", "architecture", "variant"))
        return "/".join(str(part) for part in parts if part)

    @property
    def app(self) -> Json:
        """The member ``config`` of the image's configuration: Env, Cmd, User and so on."""
        found = self.config.get("config")
        return found if isinstance(found, dict) else {}
