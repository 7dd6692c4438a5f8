"""Build App Container Images."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support import images


def manifest(name: str, **members: object) -> dict[str, object]:
    """Return an appc manifest, version 1.0, of ``name``; ``members`` override its members."""
    labels = [{"name": "version", "value": "1.0"}, {"name": "os", "value": "linux"}]
    head = {"acKind": "ImageManifest", "acVersion": "0.8.11", "name": name, "labels": labels}
    return head | members


def version(text: str) -> list[dict[str, str]]:
    """Return the labels of a manifest with only this version."""
    return [{"name": "version", "value": text}]


def write(path: Path, manifest: object, files: Mapping[str, Any]) -> str:
    """Write an image with ``files`` below its rootfs to ``path``; return its appc image ID."""
    content: dict[str, Any] = {"manifest": json.dumps(manifest), "rootfs/": ""}
    plain = images.pack(content | {f"rootfs/{name}": data for name, data in files.items()})
    path.write_bytes(lzma.compress(plain))
    return f"sha512-{hashlib.sha512(plain).hexdigest()}"
