"""``ocipod`` with a separate store, and the layouts that it fetches from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ociruntime.images.model.digest import chain_id
from tests.support import images
from tests.support.ocipod import Ocipod


class ImageStore:
    """``ocipod`` and the layouts that it fetches from."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.ocipod = Ocipod(work / "data")
        self.trees = work / "data/cas/tree"
        self.blobs = work / "data/cas/blobs/sha256"

    def fetch(self, name: str, *layers: bytes, **how: Any) -> images.BuiltImage:  # noqa: ANN401
        """Fetch an image of these layers (or busybox) to the store, as ``self.name(name)``."""
        built = images.make_layout(self.work / name, layers=list(layers) or None, **how)
        self.ocipod("fetch", self.name(name)).ok()
        return built

    def name(self, name: str) -> str:
        return f"oci:{self.work / name}"

    def listed(self) -> list[str]:
        """Return the names of the images in the store."""
        out = self.ocipod("image", "list", "--no-legend", "--fields=name").ok().out
        return out.splitlines()

    def tree(self, built: images.BuiltImage) -> Path:
        """Return the path of an image's tree, whether it exists or not."""
        chain = chain_id([images.digest(layer) for layer in built.layers])
        return self.trees / chain.replace(":", "-")
