"""An image of the store as an image layout: a directory, or an archive of one.

See image-layout.md of the image specification.  The blobs go out as they came in.
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
from ociruntime.images.model.image import Image
from ociruntime.images.model.media_types import OCI_INDEX, OCI_MANIFEST
from ociruntime.images.model.progress import silent
from ociruntime.images.tar.streams import Readable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.images.model.image import Json
    from ociruntime.images.model.progress import Progress

REF_NAME = "org.opencontainers.image.ref.name"
_NAME = "io.containerd.image.name"  # whole; docker and containerd read it


def write_layout(blobs: Blobs, image: Image, target: int, progress: Progress = silent) -> None:
    """Into the empty directory ``target``, a descriptor, which others may write to as well.

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
        raise HostError("write the image layout", error) from None
    finally:
        del made[""]
        for fd in made.values():
            os.close(fd)


def _made(made: dict[str, int], place: str) -> int:
    """The directory ``place`` of those that were made, or made now.  Raises OSError."""
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
    """The same as a tar archive: two exports of an image are equal.  Raises as ``write_layout``.

    ``index.json`` comes first: what it lacks, a reader of the stream need not wait for.
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
    """The content of a blob of ``total`` bytes; at its end its digest is compared."""

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
        """Raises ImageError."""
        if self.hash.hexdigest() != self.digest.partition(":")[2]:
            raise ImageError(f"blob {self.digest} is damaged", "ocipod image verify says more")


def blobs_of(blobs: Blobs, image: Image) -> dict[str, int]:
    """Digest -> size of manifest, configuration and layers, in this order."""
    found = {image.id: blobs.size(image.id)}
    found[image.config_digest] = int(image.manifest["config"]["size"])
    return found | {layer.digest: layer.size for layer in image.layers}


def _documents(image: Image, manifest_size: int) -> dict[str, bytes]:
    """The files of the layout that are no blobs."""
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
    """The tag of a name, which a layout calls its images by; ``latest`` if it has none."""
    tag = name.partition("@")[0].rpartition("/")[2].partition(":")[2]
    return tag or "latest"


def _place(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o644
    return member
