"""An image in the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Descriptor:
    """An OCI descriptor, which refers to a blob; ``size`` in bytes."""

    media_type: str
    digest: str
    size: int


@dataclass(frozen=True)
class Layer:
    """``diff_id`` is the digest of the uncompressed tar, ``compression`` "", "gzip" or "zstd"."""

    digest: str
    size: int
    media_type: str
    diff_id: str
    compression: str


@dataclass(frozen=True)
class Image:
    """An image for a single platform.

    ``id`` is the digest of its manifest.  ``name`` is the one it was found by, else its first name,
    or empty.  ``size`` is the sum of its blobs in bytes.  ``imported`` and ``used`` are in seconds
    since the epoch.  ``index`` is the digest of the index that it was chosen from, or empty.
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
        """The platform, for example ``linux/arm64/v8``."""
        parts = (self.config.get(key) for key in ("os", "architecture", "variant"))
        return "/".join(str(part) for part in parts if part)

    @property
    def app(self) -> Json:
        """The image configuration's member ``config``: Env, Cmd, User and so on."""
        found = self.config.get("config")
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class Record:
    """An image as the index describes it, even if its blobs are damaged; see ``Image``.

    ``origins`` maps each name that it was imported under to its signer, "" if none was required.
    """

    id: str
    name: str
    names: tuple[str, ...]
    size: int
    imported: float
    used: float
    index: str
    origins: tuple[tuple[str, str], ...] = ()
