"""A container image made on the spot: one layer around busybox, as a docker-archive."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from tests.support import rootfs

NAME = "localhost/testbox:latest"


def build(archive: Path, work: Path, programs: dict[str, Path]) -> str:
    """Write the archive that ``podman load``, ``docker load`` and ``ctr import`` take.

    Returns the image's name.  ``work`` is an empty directory to lay the tree out in.
    """
    rootfs.build(work / "rootfs", programs)
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(work / "rootfs", arcname=".")
    data = layer.getvalue()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": "2026-01-01T00:00:00Z",
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Cmd": ["sh"],
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(data).hexdigest()}"]},
        "history": [{"created": "2026-01-01T00:00:00Z", "created_by": "the tests"}],
    }
    config_bytes = json.dumps(config).encode()
    config_name = f"{hashlib.sha256(config_bytes).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [NAME], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, mode="w") as tar:
        _add(tar, "layer.tar", data)
        _add(tar, config_name, config_bytes)
        _add(tar, "manifest.json", json.dumps(manifest).encode())
    return NAME


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
