"""Container images built in memory, as bytes: layouts, archives, and a registry's content.

make_layout(work / "busybox")                                   oci:.../busybox:latest
make_layout(work / "two", layers=[pack({"a": "1"}), pack({".wh.a": ""})], tag="v1")
build(layers=[...], compression="zstd").write_docker_archive(work / "two.tar")
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from ociruntime.images.model.image import Descriptor, Image
from ociruntime.images.model.manifest import parse_manifest
from ociruntime.images.store.import_image import Incoming
from ociruntime.images.store.store import Store
from tests.support import rootfs

Json = dict[str, Any]
Content = str | bytes | tarfile.TarInfo

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
MACHINE = MACHINES.get(os.uname().machine, os.uname().machine)
OCI = "application/vnd.oci.image"
DOCKER = "application/vnd.docker"
OCI_INDEX = f"{OCI}.index.v1+json"
OCI_MANIFEST = f"{OCI}.manifest.v1+json"
OCI_LAYER = {"": f"{OCI}.layer.v1.tar", "gzip": f"{OCI}.layer.v1.tar+gzip"}
OCI_LAYER["zstd"] = f"{OCI}.layer.v1.tar+zstd"
DOCKER_MANIFEST = f"{DOCKER}.distribution.manifest.v2+json"
DOCKER_CONFIG = f"{DOCKER}.container.image.v1+json"
DOCKER_LAYER = {"": f"{DOCKER}.image.rootfs.diff.tar"}
DOCKER_LAYER["gzip"] = f"{DOCKER}.image.rootfs.diff.tar.gzip"
DOCKER_LAYER["zstd"] = f"{DOCKER}.image.rootfs.diff.tar.zstd"
REF_NAME = "org.opencontainers.image.ref.name"
CREATED = "2024-01-02T03:04:05Z"


class BuiltImage:
    """An image for one platform.

    ``layers`` are uncompressed tars, ``stored`` the same in their stored form; ``blobs`` maps each
    digest to the bytes, including the manifest.
    """

    def __init__(
        self,
        layers: Sequence[bytes],
        config: Mapping[str, Any] | None = None,
        compression: str | Sequence[str] = "gzip",
        name: str = "",
        *,
        architecture: str = MACHINE,
        variant: str = "",
        docker: bool = False,
    ) -> None:
        """Create an image.

        The argument ``config`` is the member of that name; Env, Cmd and WorkingDir have defaults.
        """
        self.name = name
        self.layers = list(layers)
        self.platform: Json = {"architecture": architecture, "os": "linux"}
        if variant:
            self.platform["variant"] = variant
        of_app = {"Env": [f"PATH={PATH}"], "Cmd": ["sh"], "WorkingDir": "/"} | dict(config or {})
        self.config_document: Json = {
            **self.platform,
            "created": CREATED,
            "config": of_app,
            "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in layers]},
            "history": [{"created_by": "tests"} for _ in layers],
        }
        kinds = [compression] * len(layers) if isinstance(compression, str) else list(compression)
        self.stored = [compress(*pair) for pair in zip(self.layers, kinds, strict=True)]
        media_types = DOCKER_LAYER if docker else OCI_LAYER
        self.config = to_json(self.config_document)
        self.manifest_document: Json = {
            "schemaVersion": 2,
            "mediaType": DOCKER_MANIFEST if docker else OCI_MANIFEST,
            "config": descriptor(DOCKER_CONFIG if docker else f"{OCI}.config.v1+json", self.config),
            "layers": [
                descriptor(media_types[kind], stored)
                for kind, stored in zip(kinds, self.stored, strict=True)
            ],
        }

    @property
    def manifest(self) -> bytes:
        return to_json(self.manifest_document)

    @property
    def id(self) -> str:
        """The digest of the manifest."""
        return digest(self.manifest)

    @property
    def blobs(self) -> dict[str, bytes]:
        return {digest(blob): blob for blob in (self.config, *self.stored, self.manifest)}

    @property
    def entry(self) -> Json:
        """The descriptor of the manifest, with the platform."""
        found = descriptor(self.manifest_document["mediaType"], self.manifest)
        return found | {"platform": self.platform}

    def layout_files(self, tag: str) -> dict[str, bytes]:
        """Return the files of an image layout (image-spec, image-layout.md) with this image."""
        return layout_files(self.blobs, [tagged(self.entry, tag)])

    def write_layout(self, target: Path, tag: str = "latest") -> None:
        write_directory(target, self.layout_files(tag))

    def write_oci_archive(self, target: Path, tag: str = "") -> None:
        """Write an image layout in a tar file."""
        target.write_bytes(pack(self.layout_files(tag or self.name)))

    def write_docker_archive(self, target: Path) -> None:
        """Write what ``docker save`` writes; the layers are not compressed."""
        config = f"{digest(self.config)[7:]}.json"
        names = [f"{digest(layer)[7:]}/layer.tar" for layer in self.layers]
        tags = [self.name] if self.name else None
        listing = [{"Config": config, "RepoTags": tags, "Layers": names}]
        files = {config: self.config, "manifest.json": to_json(listing)}
        target.write_bytes(pack(files | dict(zip(names, self.layers, strict=True))))


def build(
    layers: Sequence[bytes] | None = None,
    config: Mapping[str, Any] | None = None,
    *,
    files: Mapping[str, Content] | None = None,
    tree: Path | None = None,
    compression: str | Sequence[str] = "gzip",
    name: str = "",
) -> BuiltImage:
    """Build an image of tars, or of a directory, or of busybox; ``files`` add a layer."""
    chosen = list(layers) if layers is not None else [pack_tree(tree) if tree else busybox_layer()]
    if files:
        chosen.append(pack(files))
        if not isinstance(compression, str):
            compression = [*compression, "gzip"]
    return BuiltImage(chosen, config, compression, name)


def make_layout(
    path: Path,
    *,
    layers: Sequence[bytes] | None = None,
    files: Mapping[str, Content] | None = None,
    tree: Path | None = None,
    config: Mapping[str, Any] | None = None,
    tag: str = "latest",
    compression: str | Sequence[str] = "gzip",
) -> BuiltImage:
    """Write an image layout (see ``build``) to ``path``, which must not exist."""
    image = build(layers, config, files=files, tree=tree, compression=compression)
    image.write_layout(path, tag)
    return image


def make_index_layout(path: Path, images: Sequence[BuiltImage], tag: str = "latest") -> str:
    """Write a layout whose tag is an index with an image per platform; return its digest."""
    index = to_json(
        {
            "schemaVersion": 2,
            "mediaType": OCI_INDEX,
            "manifests": [image.entry for image in images],
        }
    )
    blobs = {digest(index): index}
    for image in images:
        blobs |= image.blobs
    write_directory(path, layout_files(blobs, [tagged(descriptor(OCI_INDEX, index), tag)]))
    return digest(index)


def layout_files(blobs: Mapping[str, bytes], entries: Sequence[Json]) -> dict[str, bytes]:
    files = {
        "oci-layout": to_json({"imageLayoutVersion": "1.0.0"}),
        "index.json": to_json({"schemaVersion": 2, "manifests": list(entries)}),
    }
    return files | {f"blobs/sha256/{name[7:]}": blob for name, blob in blobs.items()}


def tagged(entry: Json, tag: str) -> Json:
    """Return the index ``entry`` with the two annotations that name an image."""
    return entry | {"annotations": {REF_NAME: tag, "io.containerd.image.name": tag}}


def pack(files: Mapping[str, Content]) -> bytes:
    """Return a tar archive.

    A value is a file's content; for a name that ends with ``/``, the directory's attributes; or a
    complete header, whose name is the key.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                content.name = name
                archive.addfile(content)
                continue
            data = content.encode() if isinstance(content, str) else content
            header = tarfile.TarInfo(name)
            header.size, header.mode = len(data), 0o644
            if name.endswith("/"):
                header.type, header.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(header, io.BytesIO(data))
    return buffer.getvalue()


def member(type: bytes, **fields: Any) -> tarfile.TarInfo:  # noqa: ANN401
    """Return a header for ``pack``: ``member(tarfile.SYMTYPE, linkname="x", mode=0o777)``."""
    header = tarfile.TarInfo()
    header.type = type
    header.mode = 0o755
    for key, value in fields.items():
        setattr(header, key, value)
    return header


def pack_tree(tree: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(tree, ".")
    return buffer.getvalue()


@cache
def busybox_layer() -> bytes:
    """Return the root filesystem of ``tests/support/rootfs.py`` without further programs."""
    files: dict[str, Content] = {f"{name}/": "" for name in rootfs.DIRECTORIES}
    files["tmp/"] = member(tarfile.DIRTYPE, mode=0o1777)
    files |= rootfs.FILES
    program = rootfs.BUSYBOX.read_bytes()
    layer = {**files, **{f"bin/{name}": _applet() for name in rootfs.APPLETS.split()}}
    packed = io.BytesIO(pack(layer))
    with tarfile.open(fileobj=packed, mode="a") as archive:
        header = member(tarfile.REGTYPE, name="bin/busybox", size=len(program))
        archive.addfile(header, io.BytesIO(program))
    return packed.getvalue()


def _applet() -> tarfile.TarInfo:
    return member(tarfile.SYMTYPE, linkname="busybox", mode=0o777)


def compress(layer: bytes, kind: str) -> bytes:
    """Compress data; ``kind`` is empty, gzip or zstd."""
    if kind == "gzip":
        return gzip.compress(layer, 1, mtime=0)
    if kind == "zstd":
        import zstandard

        return zstandard.ZstdCompressor(1).compress(layer)
    return layer


def to_json(value: object) -> bytes:
    return json.dumps(value).encode()


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def descriptor(media_type: str, content: bytes) -> Json:
    return {"mediaType": media_type, "digest": digest(content), "size": len(content)}


def write_directory(target: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def import_image(
    store: Store, manifest: bytes, open_blob: Callable[[Descriptor], BinaryIO], name: str = ""
) -> Image:
    """Import an image; ``open_blob`` returns a stream for each blob that the store lacks."""
    _, config, layers = parse_manifest(manifest)
    with Incoming(store) as incoming:
        id = incoming.add_bytes(manifest)
        for blob in (config, *layers):
            if not incoming.has(blob.digest):
                with open_blob(blob) as stream:
                    incoming.add_blob(stream, blob.digest, blob.size)
        return incoming.commit(id, name)
