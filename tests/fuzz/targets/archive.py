"""Docker archives and layouts: the content of a file that a user names as an image.

The first byte of an input selects the form: 1 repairs the checksums of the headers, 2 uses the rest
as the manifest of an archive whose other members are valid, 3 as its configuration, 4 and 5 as
index and manifest of a layout.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing

from ociruntime.images.formats.docker_archive import add_image
from ociruntime.images.formats.local_image import kind_of_archive, named_images
from ociruntime.images.formats.oci_layout import Layout, is_layout
from ociruntime.images.model.image import silent
from ociruntime.images.model.image_limits import Budget, Limits
from ociruntime.images.model.manifest import parse_config, parse_manifest
from ociruntime.images.model.platforms import read_index
from ociruntime.images.model.reference import parse
from ociruntime.images.store.import_image import Incoming
from ociruntime.images.tar.archives import ArchiveFiles
from ociruntime.images.tar.decompression import Readable
from tests.fuzz.mutation import change_tar, json_mutator, repaired
from tests.fuzz.target import Target, empty_directory, refusals
from tests.support import images

LIMITS = Limits(bytes=1 << 20, files=200, depth=12, names=1 << 20, floor=1 << 18)
_LAYER = images.pack({"a": "x"})
_CONFIG = {
    "architecture": "amd64", "os": "linux", "created": "2026-01-01T00:00:00Z",
    "config": {"Cmd": ["/bin/sh"], "Env": ["A=1"], "ExposedPorts": {"80/tcp": {}}, "User": "0"},
    "rootfs": {"type": "layers", "diff_ids": [images.digest(_LAYER)]},
    "history": [{"created_by": "x", "empty_layer": False}],
}  # fmt: skip
_MANIFEST = [{"Config": "c.json", "RepoTags": ["a:1"], "Layers": ["l/layer.tar"]}]
_mutate_json = json_mutator(
    ("Config", "RepoTags", "Layers", "rootfs", "diff_ids", "manifests", "digest", "size",
     "mediaType", "annotations", "platform", "os", "architecture", "variant", "config", "layers",
     "schemaVersion", "history", "urls", "org.opencontainers.image.ref.name")
)  # fmt: skip


class _Incoming(Incoming):
    """An import that reads everything and keeps nothing."""

    def __init__(self) -> None:
        self.budget = Budget(LIMITS, lambda: (1 << 40, 1 << 40))

    def add_blob(self, stream: Readable, digest: str = "", size: int = -1, *others: object) -> str:
        content = b""
        while chunk := stream.read(1 << 16):
            content += chunk
        assert size < 0 or len(content) == size, "a member has not the size that it says"
        return digest or images.digest(content)


def _index(manifest: bytes) -> bytes:
    entry = images.descriptor(images.OCI_MANIFEST, manifest)
    return images.to_json({"schemaVersion": 2, "manifests": [entry]})


def _manifest() -> bytes:
    config = images.descriptor(f"{images.OCI}.config.v1+json", images.to_json(_CONFIG))
    layer = images.descriptor(images.OCI_LAYER[""], _LAYER)
    return images.to_json({"schemaVersion": 2, "config": config, "layers": [layer]})


def _docker(manifest: bytes, config: bytes) -> bytes:
    return images.pack({"manifest.json": manifest, "c.json": config, "l/layer.tar": _LAYER})


def _layout(index: bytes, manifest: bytes) -> bytes:
    config = images.to_json(_CONFIG)
    blobs = {images.digest(one): one for one in (manifest, config, _LAYER)}
    names = {f"blobs/{digest.replace(':', '/')}": data for digest, data in blobs.items()}
    head = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": index}
    return images.pack(head | names)


def _tar(form: int, data: bytes) -> bytes:
    if form == 2:
        return _docker(data, images.to_json(_CONFIG))
    if form == 3:
        return _docker(images.to_json(_MANIFEST), data)
    if form == 4:
        return _layout(data, _manifest())
    if form == 5:
        return _layout(_index(data), data)
    return repaired(data) if form == 1 else data


def run(data: bytes) -> None:
    if not data:
        return
    place = empty_directory("archive")
    path = str(place / "image.tar")
    (place / "image.tar").write_bytes(_tar(data[0], data[1:]))
    budget = Budget(LIMITS, lambda: (1 << 40, 1 << 40))
    for kind in ("docker-archive", "oci-archive"):
        with refusals():
            named_images(parse(f"{kind}:{path}"), str(place), budget.fresh())
    with refusals(), closing(ArchiveFiles(path, str(place), budget)) as files:
        kind_of_archive(frozenset(files._members))
        for tag in ("", "a:1"):
            with refusals():
                add_image(_Incoming(), files, tag, silent)
        if is_layout(files.has):
            with refusals():
                Layout(files).image("")
    _documents(data[1:])


def _documents(data: bytes) -> None:
    with refusals():
        entries = read_index(data, "", "the index")
        assert entries is None or all(entry.descriptor.digest for entry in entries)
    with refusals():
        _, config, layers = parse_manifest(data, "the manifest")
        parse_config(images.to_json(_CONFIG), layers, "the configuration")
        assert config.size >= 0
    with refusals():
        parse_config(data, [], "the configuration")


def seeds() -> Iterator[bytes]:
    yield b"\1" + _docker(images.to_json(_MANIFEST), images.to_json(_CONFIG))
    link = images.member(b"2", linkname="../../../etc/passwd")
    yield b"\1" + images.pack({"manifest.json": images.to_json(_MANIFEST), "c.json": link})
    yield b"\2" + images.to_json(_MANIFEST)
    yield b"\2" + images.to_json(_MANIFEST * 2)
    yield b"\3" + images.to_json(_CONFIG)
    yield b"\4" + _index(_manifest())
    yield b"\4" + _index(_index(_manifest()))
    yield b"\5" + _manifest()
    yield b"\0" + images.compress(_docker(images.to_json(_MANIFEST), b"{}"), "gzip")


def mutate(data: bytes, rng: random.Random) -> bytes:
    form = data[0] if data else rng.randrange(6)
    if form < 2:
        return bytes([form]) + change_tar(data[1:], rng)
    return bytes([form]) + bytes(_mutate_json(data[1:], rng))


TARGET = Target(
    run,
    (
        "images/formats/docker_archive.py",
        "images/formats/oci_layout.py",
        "images/formats/local_image.py",
        "images/model/manifest.py",
        "images/model/platforms.py",
        "images/tar/archives.py",
    ),
    seeds,
    mutate,
)
