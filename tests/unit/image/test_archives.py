"""Archives and directories that become images: what is read of them, and what cannot be."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import tarfile
from pathlib import Path

import pytest

from ociruntime.errors import HostError, ImageError
from ociruntime.image.archives import ArchiveFiles, Reading, members
from ociruntime.image.docker_archive import add_image
from ociruntime.image.export import write_archive
from ociruntime.image.image import Image
from ociruntime.image.incoming import Incoming
from ociruntime.image.layer_tar import LayerTar, of_directory
from ociruntime.image.limits import Limits
from ociruntime.image.progress import silent
from ociruntime.image.store import Store
from tests.support import images

BUILT = images.build([images.pack({"a": "b"})])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "data"))


def put(store: Store, built: images.BuiltImage) -> Image:
    return store.import_image(built.manifest, lambda blob: io.BytesIO(built.blobs[blob.digest]))


def read_all(stream: LayerTar) -> bytes:
    found = b""
    while data := stream.read(1 << 16):
        found += data
    return found


def test_a_docker_archive_with_compressed_layers(tmp_path: Path, store: Store) -> None:
    """A layer may be compressed by gzip, but not by xz."""
    layer = BUILT.layers[0]
    listing = [{"Config": "c.json", "RepoTags": None, "Layers": ["layer"]}]
    files: dict[str, images.Content] = {
        "manifest.json": json.dumps(listing),
        "c.json": BUILT.config,
    }
    for data in (gzip.compress(layer), lzma.compress(layer)):
        (tmp_path / "a.tar").write_bytes(images.pack({**files, "layer": data}))
        with Incoming(store) as incoming:
            archive = ArchiveFiles(str(tmp_path / "a.tar"), store.tmp)
            try:
                if data[:1] == b"\x1f":
                    manifest = add_image(incoming, archive, "", silent)
                    assert json.loads(manifest.data)["layers"][0]["digest"] == images.digest(data)
                else:
                    with pytest.raises(ImageError, match=r"a\.tar: layer is compressed with xz"):
                        add_image(incoming, archive, "", silent)
            finally:
                archive.close()


def test_headers_one_behind_the_other(tmp_path: Path) -> None:
    """The standard library reads those of extended names by recursion."""
    header = images.member(tarfile.GNUTYPE_LONGNAME, name="x")
    archive = header.tobuf(tarfile.GNU_FORMAT) * 5000
    with pytest.raises(ImageError, match="it is damaged"):
        list(members(Reading(io.BytesIO(archive), "it")))
    (tmp_path / "a.tar").write_bytes(archive)
    with pytest.raises(ImageError, match=r"a\.tar is damaged"):
        ArchiveFiles(str(tmp_path / "a.tar"), str(tmp_path))


@pytest.mark.parametrize("type", [b"x", b"g", b"X", b"L", b"K"])
@pytest.mark.parametrize("size", [-512, 2 << 20, 7 << 33])
def test_headers_that_would_fill_the_memory(tmp_path: Path, type: bytes, size: int) -> None:
    archive = images.member(type, name="x", size=size).tobuf(tarfile.GNU_FORMAT) + bytes(1024)
    words = f"it has an extended header of {size} bytes"
    with pytest.raises(ImageError, match=words):
        list(members(Reading(io.BytesIO(archive), "it")))
    (tmp_path / "it").write_bytes(archive)
    with pytest.raises(ImageError, match=words):
        ArchiveFiles(str(tmp_path / "it"), str(tmp_path))


def test_a_file_that_becomes_shorter(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    file = tmp_path / "tree" / "log"
    file.write_bytes(bytes(2000))
    stream = LayerTar(of_directory(str(tmp_path / "tree")))
    begin = stream.read(512) + stream.read(512)  # the headers of both
    assert b"log" in begin
    os.truncate(file, 1000)
    with pytest.raises(ImageError, match='"log" became shorter while it was read'):
        read_all(stream)


def test_directories_one_in_another(tmp_path: Path) -> None:
    """As many as a layer may have, and far more."""
    most = Limits().depth
    deep = tmp_path / "tree" / "/".join(["d"] * most)
    deep.mkdir(parents=True)
    packed = read_all(LayerTar(of_directory(str(tmp_path / "tree"))))
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert len(archive.getnames()) == most + 1
    (deep / "/".join(["e"] * 300)).mkdir(parents=True)
    with pytest.raises(ImageError, match=f"more than {most} directories in one another .d/d"):
        read_all(LayerTar(of_directory(str(tmp_path / "tree"))))


def test_an_archive_on_a_full_disk(store: Store) -> None:
    image = put(store, BUILT)
    words = "write the archive: no space left on device"
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(HostError, match=words):
        write_archive(store.blobs, image, full)
