"""A container image built on the spot: one layer, as an OCI or as a Docker archive."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

NAME = "localhost/box:latest"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
OCI = "application/vnd.oci.image"


class Image:
    """The parts of the image as bytes; ``tree`` is the root file system to pack."""

    def __init__(self, tree: Path, name: str = NAME, command: tuple[str, ...] = ("sh",)) -> None:
        self.name = name
        self.layer = _packed(tree)
        machine = os.uname().machine
        self.config = _json(
            {
                "architecture": MACHINES.get(machine, machine),
                "os": "linux",
                "config": {"Env": [f"PATH={PATH}"], "Cmd": list(command), "WorkingDir": "/"},
                "rootfs": {"type": "layers", "diff_ids": [_digest(self.layer)]},
                "history": [{"created_by": "tests"}],
            }
        )

    def write_docker_archive(self, target: Path) -> None:
        """What ``docker save`` writes."""
        config = f"{_digest(self.config)[7:]}.json"
        listing = [{"Config": config, "RepoTags": [self.name], "Layers": ["layer.tar"]}]
        _write(
            target,
            {config: self.config, "layer.tar": self.layer, "manifest.json": _json(listing)},
        )

    def write_oci_archive(self, target: Path) -> None:
        """An image layout in a tar file (image-spec, image-layout.md)."""
        manifest = _json(
            {
                "schemaVersion": 2,
                "mediaType": f"{OCI}.manifest.v1+json",
                "config": _descriptor(f"{OCI}.config.v1+json", self.config),
                "layers": [_descriptor(f"{OCI}.layer.v1.tar", self.layer)],
            }
        )
        entry = _descriptor(f"{OCI}.manifest.v1+json", manifest)
        entry["annotations"] = {
            "org.opencontainers.image.ref.name": self.name,
            "io.containerd.image.name": self.name,
        }
        files = {
            "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
            "index.json": _json({"schemaVersion": 2, "manifests": [entry]}),
        }
        for blob in (self.config, self.layer, manifest):
            files[f"blobs/sha256/{_digest(blob)[7:]}"] = blob
        _write(target, files)


def _packed(tree: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(tree, ".")
    return buffer.getvalue()


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _write(target: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(target, "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
