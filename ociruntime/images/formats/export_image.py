"""Export an image from the store as an OCI image layout, in a directory or a tar archive.

The format is specified in image-spec, image-layout.md.  Blobs are exported unchanged.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from typing import BinaryIO

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.formats.oci_layout import blob_path
from ociruntime.images.model.blobs import CHUNK, Blobs
from ociruntime.images.model.digest import hasher
from ociruntime.images.model.image import Image, Json, Progress, silent
from ociruntime.images.model.media_types import OCI_INDEX, OCI_MANIFEST
from ociruntime.images.model.reference import parse
from ociruntime.images.tar.decompression import Readable

REF_NAME = "org.opencontainers.image.ref.name"
_NAME = "io.containerd.image.name"  # annotation with the full name, for docker and containerd


def write_layout(blobs: Blobs, image: Image, target: int, progress: Progress = silent) -> None:
    """Write an image's OCI layout to the empty directory ``target`` (a descriptor).

    Does not follow symbolic links.  Raises ImageError if a blob is damaged, HostError if a file
    already exists or cannot be written.
    """
    sizes = blobs_of(blobs, image)
    made: dict[str, int] = {"": target}
    try:
        for name, content in _documents(image, sizes[image.id]).items():
            with _new_file(target, name) as file:
                file.write(content)
        for digest, size in sizes.items():
            directory, _, name = blob_path(digest).rpartition("/")
            with blobs.open(digest) as source, _new_file(_made(made, directory), name) as file:
                checked = _Checked(source, digest, size, progress)
                shutil.copyfileobj(checked, file, CHUNK)
                checked.finish()
    except OSError as error:
        raise HostError(f"write the OCI layout of image {image.id}", error) from None
    finally:
        del made[""]
        for fd in made.values():
            os.close(fd)


def _made(made: dict[str, int], path: str) -> int:
    """Return a descriptor of the directory ``path`` in the layout; create it if necessary.

    ``made`` maps the paths of created directories to descriptors.  Raises OSError if the directory
    cannot be created.
    """
    if path not in made:
        above, _, name = path.rpartition("/")
        parent = _made(made, above)
        os.mkdir(name, dir_fd=parent)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        made[path] = os.open(name, flags, dir_fd=parent)
    return made[path]


def _new_file(directory: int, name: str) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return open(os.open(name, flags, 0o666, dir_fd=directory), "wb")


def write_archive(
    blobs: Blobs, image: Image, target: BinaryIO, progress: Progress = silent
) -> None:
    """Write an image's OCI layout to ``target`` as a reproducible tar archive.

    ``index.json`` precedes the blobs, so that a reader of the stream knows which blobs follow.  The
    archive also contains a ``manifest.json``, which ``docker load`` needs before Docker 25.  Raises
    ImageError if a blob is damaged, HostError if ``target`` cannot be written.
    """
    sizes = blobs_of(blobs, image)
    documents = _documents(image, sizes[image.id]) | {"manifest.json": _for_docker(image)}
    try:
        with tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            for name, content in documents.items():
                archive.addfile(_member(name, len(content)), io.BytesIO(content))
            for digest, size in sizes.items():
                with blobs.open(digest) as source:
                    checked = _Checked(source, digest, size, progress)
                    archive.addfile(_member(blob_path(digest), size), checked)
                    checked.finish()
    except OSError as error:
        raise HostError(f"write the archive of image {image.id}", error) from None


class _Checked:
    """A stream that reads a blob and reports progress; ``finish`` verifies the blob's digest.

    ``total`` is the size of the blob in bytes.
    """

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
        """Raise ImageError if the bytes that were read do not match the blob's digest."""
        if self.hash.hexdigest() != self.digest.partition(":")[2]:
            message = f"export blob {self.digest}: digest mismatch, the blob is damaged"
            raise ImageError(message, "run ocipod image verify")


def blobs_of(blobs: Blobs, image: Image) -> dict[str, int]:
    """Return {digest: size in bytes} of the blobs of an image: manifest, configuration, layers."""
    sizes = {image.id: blobs.size(image.id)}
    sizes[image.config_digest] = int(image.manifest["config"]["size"])
    return sizes | {layer.digest: layer.size for layer in image.layers}


def _documents(image: Image, manifest_size: int) -> dict[str, bytes]:
    """Return {name: content} of the files in an image's OCI layout, except the blobs."""
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


def _for_docker(image: Image) -> bytes:
    """Return the content of ``manifest.json``, which ``docker load`` reads."""
    is_tag = image.name and "@" not in image.name and parse(image.name).kind == "registry"
    entry = {
        "Config": blob_path(image.config_digest),
        "RepoTags": [image.name] if is_tag else None,
        "Layers": [blob_path(layer.digest) for layer in image.layers],
    }
    return json.dumps([entry]).encode()


def _tag(name: str) -> str:
    """Return the tag in the image name ``name``; ``latest`` if it has none."""
    tag = name.partition("@")[0].rpartition("/")[2].partition(":")[2]
    return tag or "latest"


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o644
    return member
