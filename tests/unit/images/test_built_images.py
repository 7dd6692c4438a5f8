"""The images that tests build are valid images."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from tests.support import images


@pytest.mark.parametrize("compression", ["", "gzip", "zstd"])
def test_layout(tmp_path: Path, compression: str) -> None:
    image = images.make_layout(tmp_path / "box", tag="v1", compression=compression)
    index = json.loads((tmp_path / "box/index.json").read_text())
    (entry,) = index["manifests"]
    assert entry["digest"] == image.id
    assert entry["annotations"][images.REF_NAME] == "v1"
    blobs = tmp_path / "box/blobs/sha256"
    for blob in blobs.iterdir():
        assert images.digest(blob.read_bytes()) == f"sha256:{blob.name}"
    manifest = json.loads((blobs / entry["digest"][7:]).read_text())
    names = [manifest["config"]["digest"], *[one["digest"] for one in manifest["layers"]]]
    assert {blob.name for blob in blobs.iterdir()} == {n[7:] for n in [*names, image.id]}


def test_busybox_layer() -> None:
    with tarfile.open(fileobj=io.BytesIO(images.busybox_layer())) as archive:
        names = archive.getnames()
        assert archive.getmember("bin/busybox").isreg()
        assert archive.getmember("bin/sh").linkname == "busybox"
        assert archive.getmember("tmp").mode == 0o1777
    assert len(names) == len(set(names))


def test_docker_archive(tmp_path: Path) -> None:
    image = images.build([images.pack({"a": "1"}), images.pack({"b/": ""})], name="x:y")
    image.write_docker_archive(tmp_path / "x.tar")
    with tarfile.open(tmp_path / "x.tar") as archive:
        listing = archive.extractfile("manifest.json")
        assert listing is not None
        (entry,) = json.load(listing)
        assert set(archive.getnames()) == {"manifest.json", entry["Config"], *entry["Layers"]}
    assert entry["RepoTags"] == ["x:y"]


def test_index(tmp_path: Path) -> None:
    layer = images.pack({"a": "1"})
    both = [images.BuiltImage([layer], architecture=name) for name in ("amd64", "arm64")]
    digest = images.make_index_layout(tmp_path / "both", both)
    index = json.loads((tmp_path / "both/blobs/sha256" / digest[7:]).read_text())
    assert [one["platform"]["architecture"] for one in index["manifests"]] == ["amd64", "arm64"]
