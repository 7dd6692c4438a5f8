"""Import a root filesystem (a directory or a tarball) as an image with a single layer.

The image has no entrypoint or other settings; the user specifies the command to run.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import closing
from typing import BinaryIO

from ociruntime.base.errors import ImageError
from ociruntime.images.model.image import Progress
from ociruntime.images.model.image_limits import Budget
from ociruntime.images.store.import_image import Incoming
from ociruntime.images.store.make_manifest import StoredLayer, add_documents, minimal_config
from ociruntime.images.store.resolve_index import Document
from ociruntime.images.tar.archives import Reading, compression_of_file, open_file, plain
from ociruntime.images.tar.decompression import CHUNK, OF_LAYERS
from ociruntime.images.tar.layer_writer import LayerTar, of_directory
from ociruntime.images.tar.tar_header import BLOCK, parse_header


def add_directory(incoming: Incoming, path: str, progress: Progress) -> Document:
    """Import the directory ``path`` as an image with one layer; return the image's manifest.

    ``incoming`` is the import that the image is added to.  Raises HostError if a file cannot be
    read, ImageError if a limit is exceeded or a file cannot be stored in a layer.
    """
    stream = LayerTar(of_directory(path, incoming.budget.fresh()))
    digest = incoming.add_blob(stream, progress=progress, kind=f"packing {path}")
    layer = StoredLayer(digest, stream.count, digest)
    return add_documents(incoming, minimal_config([layer]), [layer])


def add_tarball(incoming: Incoming, path: str, progress: Progress) -> Document:
    """Add an image with the content of the tarball ``path`` to the import; return its manifest.

    The tarball may be uncompressed, or compressed with gzip, zstd, xz or bzip2.  gzip and zstd
    files are stored unchanged.  xz and bzip2 files are decompressed, because the image
    specification does not support them.  Raises HostError if the file cannot be read, ImageError if
    it is not a tar archive or a limit is exceeded.
    """
    with open_file(path) as file:
        budget = incoming.budget
        diff_id, size = _measured(file, path, budget)
        kind = f"copying {path}"
        compression = compression_of_file(file, f'"{path}"')
        if compression in OF_LAYERS:
            size = os.fstat(file.fileno()).st_size
            digest = incoming.add_blob(Reading(file, f'"{path}"'), "", size, progress, kind)
        else:
            compression = ""
            with closing(plain(file, f'"{path}"', budget)) as stream:
                digest = incoming.add_blob(stream, diff_id, size, progress, kind)
        layer = StoredLayer(digest, size, diff_id, compression)
    return add_documents(incoming, minimal_config([layer]), [layer])


def _measured(file: BinaryIO, path: str, budget: Budget) -> tuple[str, int]:
    """Return (digest, size in bytes) of the decompressed tarball, and rewind ``file``.

    Raises ImageError if the file at ``path`` is not a tar archive.
    """
    with closing(plain(file, f'"{path}"', budget)) as stream:
        first = b""
        while len(first) < BLOCK and (more := stream.read(BLOCK)):
            first += more
        if first.strip(b"\0"):  # an empty archive consists of zeros
            try:
                parse_header(first[:BLOCK].ljust(BLOCK, b"\0"))
            except ImageError:
                raise ImageError(f'import "{path}": the file is not a tar archive') from None
        hashed, size = hashlib.sha256(first), len(first)
        while data := stream.read(CHUNK):
            hashed.update(data)
            size += len(data)
    file.seek(0)
    return f"sha256:{hashed.hexdigest()}", size
