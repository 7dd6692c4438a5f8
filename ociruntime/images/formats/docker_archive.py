"""Import docker archives (``docker save``, ``podman save``).

The file ``manifest.json`` in the archive lists the images and the names of their files::

    [{"Config": "HEX.json", "RepoTags": ["busybox:1.36"], "Layers": ["HEX/layer.tar", ...]}, ...]
"""

from __future__ import annotations

import json
from contextlib import closing

from ociruntime.base.errors import ImageError
from ociruntime.images.model.image import Json, Progress
from ociruntime.images.model.manifest import LARGEST_DOCUMENT, load_document
from ociruntime.images.model.reference import parse
from ociruntime.images.store.import_image import Incoming
from ociruntime.images.store.make_manifest import StoredLayer, manifest_of
from ociruntime.images.store.resolve_index import Document
from ociruntime.images.tar.archives import ArchiveFiles, read_small
from ociruntime.images.tar.decompression import compression_of


def add_image(incoming: Incoming, files: ArchiveFiles, tag: str, progress: Progress) -> Document:
    """Add the image ``tag`` of a docker archive to ``incoming``; return its manifest.

    ``tag`` may be "" if the archive has only one image.  Raises HostError if a file cannot be read
    or written, ImageError if the archive is invalid or has no such image.
    """
    entry = chosen(listing(files), tag, f"{files}: manifest.json")
    config = read_small(files, entry["Config"], LARGEST_DOCUMENT)
    rootfs = load_document(config, f"{files}: {entry['Config']}").get("rootfs")
    diff_ids = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    names = entry["Layers"]
    if not isinstance(diff_ids, list) or len(diff_ids) != len(names):
        message = f"rootfs.diff_ids must have {len(names)} entries, one for each layer"
        raise ImageError(f'read {files}: "{entry["Config"]}": {message}')
    layers = []
    for number, (name, diff_id) in enumerate(zip(names, diff_ids, strict=True), 1):
        stream, size = files.open(name)
        with closing(stream):
            compression = compression_of(stream.peek())
            if compression in ("xz", "bzip2"):
                hint = "supported: gzip, zstd"
                raise ImageError(
                    f'read {files}: "{name}": unsupported compression {compression}', hint
                )
            kind = f"copying layer {number} of {len(names)}"
            expected = "" if compression else str(diff_id)
            digest = incoming.add_blob(stream, expected, size, progress, kind)
        layers.append(StoredLayer(digest, size, str(diff_id), compression))
    incoming.add_bytes(config)
    manifest = manifest_of(config, layers)
    incoming.add_bytes(manifest.data, manifest.digest)
    return manifest


def listing(files: ArchiveFiles) -> list[Json]:
    """Return the validated entries of a docker archive's ``manifest.json``.

    Raises HostError if the file cannot be read, ImageError if it is missing or invalid.
    """
    what = f"read {files}: manifest.json"
    try:
        entries = json.loads(read_small(files, "manifest.json", LARGEST_DOCUMENT))
    except (ValueError, RecursionError) as error:
        raise ImageError(f"{what} is not valid JSON: {error}") from None
    if not isinstance(entries, list) or not entries or not all(map(_is_entry, entries)):
        raise ImageError(f"{what} must be a non-empty list of objects with Config and Layers")
    return entries


def _is_entry(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("Config"), str)
        and isinstance(entry.get("Layers"), list)
        and all(isinstance(name, str) for name in entry["Layers"])
        and isinstance(entry.get("RepoTags") or [], list)
    )


def chosen(entries: list[Json], tag: str, what: str) -> Json:
    """Return the ``manifest.json`` entry of the image ``tag``; if that is "", the only entry.

    ``tag`` is a name, or "@0" for the first entry, "@1" for the second, as in containers/image.
    Raises ImageError if no entry matches, or if there are several entries and ``tag`` is "".
    ``what`` names the file in the error message.
    """
    available = [
        str(name)
        for index, entry in enumerate(entries)
        for name in entry.get("RepoTags") or [f"@{index}"]
    ]
    if not tag:
        if len(entries) == 1:
            return entries[0]
        hint = f"append :NAME to the path, one of: {', '.join(available)}"
        raise ImageError(f"{what} has several images", hint)
    requested = {tag, full_name(tag)}
    for index, entry in enumerate(entries):
        if tag == f"@{index}":
            return entry
        names = [str(name) for name in entry.get("RepoTags") or []]
        if requested & {*names, *map(full_name, names)} - {""}:
            return entry
    hint = f"available: {', '.join(available) or 'none'}"
    raise ImageError(f'{what} has no image "{tag}"', hint)


def full_name(name: str) -> str:
    """Return the full form of an image name, such as docker.io/library/busybox:latest for busybox.

    Returns "" if the name is invalid.
    """
    try:
        return parse(f"docker://{name}").name
    except ImageError:
        return ""
