"""Export an image of the store as an OCI image layout, in a directory or a tar archive.

See image-layout.md of the image specification.  Blobs are exported unchanged.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from typing import BinaryIO

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.model.blobs import CHUNK, Blobs
from ociruntime.images.model.digest import hasher
from ociruntime.images.model.image import Image, Json
from ociruntime.images.model.media_types import OCI_INDEX, OCI_MANIFEST
from ociruntime.images.model.progress import Progress, silent
from ociruntime.images.tar.streams import Readable

REF_NAME = "org.opencontainers.image.ref.name"
_NAME = "io.containerd.image.name"  # the full name, for docker and containerd


def write_layout(blobs: Blobs, image: Image, target: int, progress: Progress = silent) -> None:
    """Write to the empty directory ``target`` (a descriptor), which others may also write to.

    Raises ImageError for a damaged blob, HostError.
    """
    sizes = blobs_of(blobs, image)
    made: dict[str, int] = {"": target}
    try:
        for name, content in _documents(image, sizes[image.id]).items():
            with _new_file(target, name) as file:
                file.write(content)
        for digest, size in sizes.items():
            directory, _, name = _place(digest).rpartition("/")
            with blobs.open(digest) as source, _new_file(_made(made, directory), name) as file:
                checked = _Checked(source, digest, size, progress)
                shutil.copyfileobj(checked, file, CHUNK)
                checked.finish()
    except OSError as error:
        raise HostError("write the OCI layout", error) from None
    finally:
        del made[""]
        for fd in made.values():
            os.close(fd)


def _made(made: dict[str, int], place: str) -> int:
    """Return the descriptor of the directory ``place``, creating it once.  Raises OSError."""
    if place not in made:
        above, _, name = place.rpartition("/")
        parent = _made(made, above)
        os.mkdir(name, dir_fd=parent)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        made[place] = os.open(name, flags, dir_fd=parent)
    return made[place]


def _new_file(directory: int, name: str) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return open(os.open(name, flags, 0o666, dir_fd=directory), "wb")


def write_archive(
    blobs: Blobs, image: Image, target: BinaryIO, progress: Progress = silent
) -> None:
    """Write the layout as a reproducible tar archive.  Raises like ``write_layout``.

    ``index.json`` comes first, so that a reader of the stream can tell early what is missing.
    """
    sizes = blobs_of(blobs, image)
    try:
        with tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            for name, content in _documents(image, sizes[image.id]).items():
                archive.addfile(_member(name, len(content)), io.BytesIO(content))
            for digest, size in sizes.items():
                with blobs.open(digest) as source:
                    checked = _Checked(source, digest, size, progress)
                    archive.addfile(_member(_place(digest), size), checked)
                    checked.finish()
    except OSError as error:
        raise HostError("write the archive", error) from None


class _Checked:
    """A blob of ``total`` bytes whose digest is verified at its end."""

    def __init__(self, source: Readable, digest: str, total: int, progress: Progress) -> None:
        self.source = source
        self.digest = digest
        self.total = total
        self.progress = progress
        self.hash = hasher(digest)
        self.done = 0

    def read(self, size: int = CHUNK, /) -> bytes:
        data = self.source.read(size)
        self.done += len(data)
        self.hash.update(data)
        self.progress(f"writing {self.digest[:19]}", self.done, self.total)
        return data

    def finish(self) -> None:
        """Verify the digest.  Raises ImageError."""
        if self.hash.hexdigest() != self.digest.partition(":")[2]:
            raise ImageError(f"blob {self.digest} is damaged", "run ocipod image verify")


def blobs_of(blobs: Blobs, image: Image) -> dict[str, int]:
    """Return digest -> size of manifest, configuration and layers, in this order."""
    found = {image.id: blobs.size(image.id)}
    found[image.config_digest] = int(image.manifest["config"]["size"])
    return found | {layer.digest: layer.size for layer in image.layers}


def _documents(image: Image, manifest_size: int) -> dict[str, bytes]:
    """Return the layout's files that are not blobs."""
    entry: Json = {
        "mediaType": image.manifest.get("mediaType", OCI_MANIFEST),
        "digest": image.id,
        "size": manifest_size,
    }
    if image.name:
        entry["annotations"] = {REF_NAME: _tag(image.name), _NAME: image.name}
    index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry]}
    return {
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
        "index.json": json.dumps(index).encode(),
    }


def _tag(name: str) -> str:
    """Return the tag of a name, ``latest`` by default; layouts name images by tag."""
    tag = name.partition("@")[0].rpartition("/")[2].partition(":")[2]
    return tag or "latest"


def _place(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o644
    return member
