"""Archives and directories that become images, and those that are refused."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import resource
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.formats.docker_archive import add_image
from ociruntime.images.formats.export_image import write_archive, write_layout
from ociruntime.images.model.image import Image, silent
from ociruntime.images.model.image_limits import Budget, Limits
from ociruntime.images.store.import_image import Incoming
from ociruntime.images.store.store import Store
from ociruntime.images.tar.archives import ArchiveFiles, Reading, members
from ociruntime.images.tar.layer_writer import LayerTar, of_directory
from tests.support import images
from tests.unit.images.trees import FREE

BUDGET = Budget(Limits(), lambda: (FREE, FREE))
BUILT = images.build([images.pack({"a": "b"})])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "data"))


def put(store: Store, built: images.BuiltImage) -> Image:
    return images.import_image(
        store, built.manifest, lambda blob: io.BytesIO(built.blobs[blob.digest])
    )


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
            archive = ArchiveFiles(str(tmp_path / "a.tar"), store.tmp, BUDGET)
            try:
                if data[:1] == b"\x1f":
                    manifest = add_image(incoming, archive, "", silent)
                    assert json.loads(manifest.data)["layers"][0]["digest"] == images.digest(data)
                else:
                    with pytest.raises(ImageError, match='layer": unsupported compression xz'):
                        add_image(incoming, archive, "", silent)
            finally:
                archive.close()


def test_headers_one_behind_the_other(tmp_path: Path) -> None:
    """The standard library would parse extended names recursively."""
    header = images.member(tarfile.GNUTYPE_LONGNAME, name="x")
    archive = header.tobuf(tarfile.GNU_FORMAT) * 5000
    with pytest.raises(ImageError, match=r"it.?: damaged tar archive: .*more than 16 "):
        list(members(Reading(io.BytesIO(archive), "it"), BUDGET))
    (tmp_path / "a.tar").write_bytes(archive)
    with pytest.raises(ImageError, match=r"a\.tar.: damaged tar archive"):
        ArchiveFiles(str(tmp_path / "a.tar"), str(tmp_path), BUDGET)


@pytest.mark.parametrize("type", [b"x", b"g", b"X", b"L", b"K"])
@pytest.mark.parametrize("size", [-512, 2 << 20, 7 << 33])
def test_headers_that_would_fill_the_memory(tmp_path: Path, type: bytes, size: int) -> None:
    archive = images.member(type, name="x", size=size).tobuf(tarfile.GNU_FORMAT) + bytes(1024)
    words = f"it.?: damaged tar archive: .* header of {size} bytes" if size > 0 else "negative size"
    with pytest.raises(ImageError, match=words):
        list(members(Reading(io.BytesIO(archive), "it"), BUDGET))
    (tmp_path / "it").write_bytes(archive)
    with pytest.raises(ImageError, match=words):
        ArchiveFiles(str(tmp_path / "it"), str(tmp_path), BUDGET)


def negative(by: str) -> bytes:
    """Return two members, of which the second would end before the first."""
    first = images.member(tarfile.REGTYPE, name="a").tobuf(tarfile.GNU_FORMAT)
    second = images.member(tarfile.REGTYPE, name="b")
    if by == "header":
        second.size = -1536
        return first + second.tobuf(tarfile.GNU_FORMAT) + bytes(1024)
    second.pax_headers = {by: "-1536"}
    if by != "size":
        second.pax_headers |= {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
        second.size = 512
        return first + second.tobuf(tarfile.PAX_FORMAT) + b"0\n".ljust(512, b"\0") + bytes(1024)
    return first + second.tobuf(tarfile.PAX_FORMAT) + bytes(1024)


def confine() -> None:
    """Limit CPU time and memory, for a reader that never ends."""
    resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


READER = """
import sys
from ociruntime.base.errors import ImageError
from ociruntime.images.tar.archives import ArchiveFiles
from ociruntime.images.model.image_limits import Budget, Limits
from ociruntime.images.formats.local_image import recognized
from ociruntime.images.model.reference import parse

budget = Budget.at(".", Limits())
for read in (
    lambda path: ArchiveFiles(path, ".", budget),
    lambda path: recognized(parse(path), budget),
):
    for path in sys.argv[1:]:
        try:
            read(path)
        except ImageError as error:
            print(error)
"""


@pytest.mark.parametrize("by", ["header", "size", "GNU.sparse.realsize"])
def test_members_of_negative_size(tmp_path: Path, by: str) -> None:
    """The standard library would read the same headers in an endless loop."""
    archive = negative(by)
    (tmp_path / "a.tar").write_bytes(archive)
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(archive))
    done = subprocess.run(
        [sys.executable, "-c", READER, "./a.tar", "./a.tar.gz"],
        cwd=tmp_path,
        preexec_fn=confine,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(": damaged tar archive: ") == 4, done.stdout


def test_a_file_that_becomes_shorter(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    file = tmp_path / "tree" / "log"
    file.write_bytes(bytes(2000))
    stream = LayerTar(of_directory(str(tmp_path / "tree"), BUDGET))
    begin = stream.read(512) + stream.read(512)  # the headers of both
    assert b"log" in begin
    os.truncate(file, 1000)
    with pytest.raises(ImageError, match=r'"log": .*truncated'):
        read_all(stream)


def test_directories_one_in_another(tmp_path: Path) -> None:
    """A layer is read with as many directories as allowed, and refused with far more."""
    most = Limits().depth
    deep = tmp_path / "tree" / "/".join(["d"] * most)
    deep.mkdir(parents=True)
    packed = read_all(LayerTar(of_directory(str(tmp_path / "tree"), BUDGET)))
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert len(archive.getnames()) == most + 1
    (deep / "/".join(["e"] * 300)).mkdir(parents=True)
    with pytest.raises(ImageError, match=f"more than {most} deep"):
        read_all(LayerTar(of_directory(str(tmp_path / "tree"), BUDGET)))


def test_an_archive_on_a_full_disk(store: Store) -> None:
    image = put(store, BUILT)
    words = "image sha256:.*: no space left on device"
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(HostError, match=words):
        write_archive(store.blobs, image, full)


def test_a_layout_that_another_process_writes_to(tmp_path: Path, store: Store) -> None:
    """A link in its place is not followed."""
    image = put(store, BUILT)
    (tmp_path / "blobs").symlink_to("outside")
    (tmp_path / "outside").mkdir()
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    with pytest.raises(HostError, match=r"image sha256:.*: file exists"):
        write_layout(store.blobs, image, fd)
    os.close(fd)
    assert os.listdir(tmp_path / "outside") == []
