"""Small files that would become large: in the store, on disk, in memory.

The limits are set low by ``limits.json``, and each refusal must name the right limit.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import resource
import struct
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from ociruntime.images.model.image_limits import Budget, Limits
from ociruntime.images.tar.decompression import decompressed
from tests.images.conftest import Refused
from tests.support import aci, images
from tests.support.ocipod import Ocipod
from tests.support.registry import Registry

MIB = 1 << 20
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
}
FETCH = """
import sys
from ociruntime.base.errors import RuntimeFailure
from ociruntime.images.fetch import fetch
from ociruntime.images.model.settings_files import Settings
from ociruntime.images.store.store import Store

with Store(sys.argv[1]) as store:
    try:
        fetch(store, sys.argv[3], "update", frozenset(), settings=Settings("", sys.argv[2]))
    except RuntimeFailure as error:
        print(error)
"""


class Confined:
    """Fetches in a process that can neither write large files nor use much memory.

    A call returns the error, "" if there was none, and checks that nothing of a refused image is
    left.
    """

    def __init__(self, work: Path) -> None:
        self.work = work

    def limit(self, **limits: int) -> None:
        (self.work / "config" / "limits.json").write_text(json.dumps(limits))

    def __call__(self, name: str, file: int = 32 * MIB, memory: int = 1024 * MIB) -> str:
        def confine() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file, file))
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

        data = self.work / "data"
        done = subprocess.run(
            [sys.executable, "-c", FETCH, str(data), str(self.work / "config"), name],
            preexec_fn=confine,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        if done.stdout:
            assert not [path for path in (data / "cas" / "blobs").rglob("*") if path.is_file()]
            assert os.listdir(data / "cas" / "tmp") == []
        return done.stdout


@pytest.fixture
def confined(ocipod: Ocipod, work: Path) -> Confined:
    return Confined(work)


def sparse_tar(path: Path, size: int, *names: str) -> None:
    """Write a tar with sparse files of ``size`` bytes, nothing but a hole each, and a manifest."""
    tree = path.with_suffix(".tree")
    (tree / "rootfs").mkdir(parents=True)
    (tree / "manifest").write_text(json.dumps(aci.manifest("example.com/app")))
    for name in names:
        with (tree / name).open("wb") as file:
            file.truncate(size)
    command = ["tar", "--sparse", "-czf", str(path), "-C", str(tree), "manifest", "rootfs"]
    subprocess.run(command, check=True, capture_output=True)


def test_a_sparse_file_in_an_aci(confined: Confined, work: Path) -> None:
    sparse_tar(work / "bad.aci", 300 * MIB, "rootfs/a")
    assert (work / "bad.aci").stat().st_size < 4096
    confined.limit(bytes=16 * MIB)
    error = confined(f"{work}/bad.aci")
    assert f"more than {16 * MIB} bytes" in error
    assert 'limited by "bytes" in limits.json' in error


def test_the_holes_of_a_tiny_aci_are_a_bomb(confined: Confined, work: Path) -> None:
    """Independent of the free space: hundreds of files, each below ``floor``."""
    sparse_tar(work / "bad.aci", 2 * MIB, *[f"rootfs/{number}" for number in range(20)])
    confined.limit(floor=8 * MIB)
    error = confined(f"{work}/bad.aci")
    assert "sparse file" in error
    assert '"ratio" and "floor"' in error


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("kind", ["tar", "docker-archive", "oci-archive", "aci", "path"])
def test_every_decompressor_heeds_the_ratio(
    confined: Confined, work: Path, suffix: str, kind: str
) -> None:
    path = work / f"bomb.tar.{suffix}"
    path.write_bytes(PACKERS[suffix](images.pack({"zeros": bytes(4 * MIB)})))
    confined.limit(floor=MIB, ratio=20)
    error = confined(str(path) if kind == "path" else f"{kind}:{path}")
    assert "a decompression bomb" in error
    assert f'{path}" that expands' in error


@pytest.mark.parametrize("suffix", PACKERS)
def test_an_archive_that_is_unpacked_to_be_read(
    confined: Confined, work: Path, suffix: str
) -> None:
    path = work / f"docker.tar.{suffix}"
    path.write_bytes(PACKERS[suffix](images.pack({"zeros": bytes(10 * MIB)})))
    confined.limit(bytes=4 * MIB)
    assert '"bytes"' in confined(f"docker-archive:{path}")


def test_a_plain_tree(confined: Confined, work: Path) -> None:
    (work / "tree").mkdir()
    for name in "abcde":
        with (work / "tree" / name).open("wb") as file:
            file.truncate(4 * MIB)
    confined.limit(bytes=16 * MIB)
    assert '"bytes"' in confined(f"dir:{work}/tree")
    confined.limit(files=4)
    assert '"files"' in confined(f"dir:{work}/tree")


def with_dictionary(packed: bytes, code: int) -> bytes:
    """Set the dictionary size of an xz stream to the size with this code; 40 is 4 GiB."""
    length = 4 * (packed[12] + 1)
    header = bytearray(packed[12 : 12 + length - 4])
    at = header.index(b"\x21\x01") + 2
    header[at] = code
    check = struct.pack("<I", zlib.crc32(header))
    return packed[:12] + bytes(header) + check + packed[12 + length :]


def test_the_dictionary_of_xz(confined: Confined, work: Path) -> None:
    plain = images.pack({"a": "b"})
    (work / "bad.tar.xz").write_bytes(with_dictionary(lzma.compress(plain), 40))
    error = confined(f"tar:{work}/bad.tar.xz")
    assert f"larger than {128 * MIB} bytes" in error
    assert '"dictionary" in limits.json' in error
    (work / "high.tar.xz").write_bytes(lzma.compress(plain, preset=9))
    assert confined(f"tar:{work}/high.tar.xz") == ""


def test_the_window_of_zstd(confined: Confined, work: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28)
    packer = zstandard.ZstdCompressor(compression_params=parameters)
    stream = packer.compressobj()  # of unknown size, else the window becomes as small as that
    packed = stream.compress(images.pack({"a": "b"})) + stream.flush()
    (work / "a.tar.zst").write_bytes(packed)
    assert '"dictionary"' in confined(f"tar:{work}/a.tar.zst")
    confined.limit(dictionary=256 * MIB)
    assert confined(f"tar:{work}/a.tar.zst") == ""


def listed(count: int, name: str = "") -> bytes:
    """Return a tar archive of that many empty files."""
    return images.pack({f"{number}{name}": "" for number in range(count)})


@pytest.mark.parametrize("kind", ["docker-archive", "oci-archive", "aci", "path"])
def test_members_of_an_archive(confined: Confined, work: Path, kind: str) -> None:
    (work / "a.tar").write_bytes(listed(300))
    confined.limit(files=200)
    error = confined(f"{work}/a.tar" if kind == "path" else f"{kind}:{work}/a.tar")
    assert 'more than 200 files (limited by "files"' in error


@pytest.mark.parametrize("kind", ["docker-archive", "oci-archive"])
def test_names_in_an_archive(confined: Confined, work: Path, kind: str) -> None:
    (work / "a.tar").write_bytes(listed(300, "x" * 3000))
    confined.limit(names=MIB // 2)
    assert f"{MIB // 2} bytes" in confined(f"{kind}:{work}/a.tar")


@pytest.mark.parametrize("what", ["", "/"])
def test_names_in_a_layer(ocipod: Ocipod, work: Path, what: str) -> None:
    """The names that are kept in memory while a layer is unpacked."""
    (work / "config" / "limits.json").write_text(json.dumps({"names": MIB // 4}))
    name = "/".join(["x" * 250] * 8)
    layer = images.pack({f"{name}/{number}{what}": "" for number in range(200)})
    (work / "a.tar").write_bytes(layer)
    ocipod("fetch", f"tar:{work}/a.tar").failed('"names" in limits.json')
    # The next layer has the memory of the one before.
    layers = [
        images.pack({f"{begin}{name}/{number}{what}": "" for number in range(50)})
        for begin in "abcde"
    ]
    images.build(layers).write_layout(work / "layout")
    ocipod("fetch", f"oci:{work}/layout").ok()


def test_the_sizes_of_descriptors(registry: Registry, refused: Refused, work: Path) -> None:
    """A declared size is refused before the blob is read or requested."""
    built = images.build([images.pack({"a": "b"})])
    built.manifest_document["layers"][0]["size"] = 1 << 50
    built.write_layout(work / "layout")
    refused(f"oci:{work}/layout", f"more than {256 << 30} bytes of files", '"bytes"')
    registry.push("team/web", "v1", built)
    name = f"{registry.host}/team/web:v1"
    refused(name, f"more than {256 << 30} bytes of files", '"bytes"')
    assert registry.asked(images.digest(built.stored[0])) == []


@pytest.mark.parametrize("name", ["bytes", "files", "floor", "names"])
def test_limits_that_are_no_limits(refused: Refused, work: Path, name: str) -> None:
    (work / "tree").mkdir()
    for value in (0, -1, "1G", True, 1.5, None):
        (work / "config" / "limits.json").write_text(json.dumps({name: value}))
        refused(f"dir:{work}/tree", f'limits.json": {name} must be ')
    (work / "config" / "limits.json").write_text(json.dumps({"byte": 5}))
    refused(f"dir:{work}/tree", 'limits.json": unknown member "byte"')


def test_config_shows_the_limits(ocipod: Ocipod, work: Path) -> None:
    (work / "system").mkdir()
    (work / "system" / "limits.json").write_text('{"files": 5, "names": 6}')
    (work / "config" / "limits.json").write_text('{"files": 7}')
    shown = ocipod("config").ok().json["limits"]
    assert (shown["files"], shown["names"], shown["ratio"]) == (7, 6, 200)


def test_a_layer_of_zeros_is_no_bomb(ocipod: Ocipod, work: Path) -> None:
    """200,000 bytes that expand to 200 million: a data file that is not filled yet."""
    header = images.member(tarfile.REGTYPE, name="zeros", size=200 * MIB)
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=9) as packed:
        packed.write(header.tobuf(tarfile.PAX_FORMAT))
        for _ in range(200):
            packed.write(bytes(MIB))
        packed.write(bytes(1024))
    assert len(buffer.getvalue()) < MIB // 4
    (work / "zeros.tar.gz").write_bytes(buffer.getvalue())
    ocipod("fetch", f"tar:{work}/zeros.tar.gz").ok()


class Counting:
    """A substitute for ``zlib.decompressobj`` that counts the bytes that it gets."""

    def __init__(self) -> None:
        self.new = zlib.decompressobj
        self.given = 0

    def __call__(self, wbits: int) -> Counting:
        self.part = self.new(wbits=wbits)
        return self

    def decompress(self, data: bytes, size: int) -> bytes:
        self.given += len(data)
        return self.part.decompress(data, size)

    def __getattr__(self, name: str) -> object:
        return getattr(self.part, name)


def test_empty_gzip_members_cost_what_they_weigh(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decompressor copies unused input: each of thousands got the whole rest."""
    counting = Counting()
    monkeypatch.setattr(zlib, "decompressobj", counting)
    packed = gzip.compress(b"") * 20_000 + gzip.compress(b"end")
    stream = decompressed(io.BytesIO(packed), Budget(Limits(), lambda: (1 << 40, 1 << 40)))
    assert stream.read(100) == b"end"
    assert stream.read(100) == b""
    assert counting.given < 100 * len(packed)


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz"])
def test_parts_of_a_compressed_archive(confined: Confined, work: Path, suffix: str) -> None:
    pack = PACKERS[suffix]
    (work / "a").write_bytes(pack(b"") * 300 + pack(images.pack({"a": "b"})))
    confined.limit(files=200)
    assert 'more than 200 parts (limited by "files"' in confined(f"tar:{work}/a")
    confined.limit(files=302)
    assert confined(f"tar:{work}/a") == ""


@pytest.mark.parametrize("name", ["manifest.json", "index.json", "oci-layout", "manifest"])
def test_documents_of_great_depth(confined: Confined, work: Path, name: str) -> None:
    files = {"oci-layout": '{"imageLayoutVersion": "1.0.0"}', "index.json": "{}"}
    (work / "a.tar").write_bytes(images.pack({**files, name: "[" * 60_000}))
    kinds = {"manifest.json": "docker-archive", "manifest": "aci"}
    assert "not valid JSON" in confined(f"{kinds.get(name, 'oci-archive')}:{work}/a.tar")


def test_volumes_of_an_image_that_are_one_directory(ocipod: Ocipod, work: Path) -> None:
    """Each is copied for a pod: with links, an image could multiply its own files."""
    links = {f"link{n}": images.member(tarfile.SYMTYPE, linkname="big") for n in range(20)}
    layer = images.pack({"big/": "", "big/file": os.urandom(2 * MIB), **links})
    config: dict[str, object] = {"Volumes": {f"/link{n}": {} for n in range(20)}}
    images.build([layer], config).write_layout(work / "layout")
    ocipod("fetch", f"oci:{work}/layout").ok()
    (work / "config" / "limits.json").write_text(json.dumps({"bytes": 16 * MIB}))
    ocipod("prepare", f"oci:{work}/layout").failed(f"more than {16 * MIB} bytes", '"bytes"')
    assert ocipod.pods() == []
    (work / "config" / "limits.json").write_text(json.dumps({"bytes": 64 * MIB}))
    ocipod("prepare", f"oci:{work}/layout").ok()
