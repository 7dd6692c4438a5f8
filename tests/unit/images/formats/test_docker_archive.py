"""Docker archives with an invalid manifest.json or configuration."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import ImageError
from ociruntime.images.formats import docker_archive, local_image
from ociruntime.images.model.image import silent
from ociruntime.images.model.image_limits import Budget, Limits
from ociruntime.images.model.reference import parse
from ociruntime.images.store.import_image import Incoming
from ociruntime.images.store.store import Store
from ociruntime.images.tar.archives import ArchiveFiles
from tests.support import images
from tests.unit.images.trees import FREE

LAYER = images.pack({"a": "1"})
CONFIG = json.dumps({"rootfs": {"type": "layers", "diff_ids": [images.digest(LAYER)]}})
ENTRY: dict[str, Any] = {"Config": "c.json", "Layers": ["l.tar"], "RepoTags": ["web:1"]}
Open = Callable[..., ArchiveFiles]


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Open]:
    opened: list[ArchiveFiles] = []

    def make(listing: object, **files: str | bytes) -> ArchiveFiles:
        text = listing if isinstance(listing, str) else json.dumps(listing)
        members: dict[str, Any] = {"manifest.json": text, "c.json": CONFIG, "l.tar": LAYER}
        path = tmp_path / "it.tar"
        path.write_bytes(images.pack(members | files))
        budget = Budget(Limits(), lambda: (FREE, FREE))
        opened.append(ArchiveFiles(str(path), str(tmp_path), budget))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.mark.parametrize(
    ("listing", "message"),
    [
        ("", "manifest.json is not .* JSON"),
        ("[" * 100_000, "manifest.json is not .* JSON"),
        ({}, "must be .* non-empty list .* objects with .* and Layers"),
        ([], "must be .* non-empty list .* objects with .* and Layers"),
        ([ENTRY, 5], "must be .* non-empty list"),
        ([{**ENTRY, "Config": 5}], "must be .* non-empty list"),
        ([{**ENTRY, "Layers": [5]}], "must be .* non-empty list"),
        ([{**ENTRY, "RepoTags": "web"}], "must be .* non-empty list"),
    ],
)
def test_listings_that_are_refused(archive: Open, listing: object, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        docker_archive.listing(archive(listing))


def test_the_image_that_is_meant() -> None:
    other = {**ENTRY, "RepoTags": ["docker.io/library/db:latest", "not a name"]}
    entries = [ENTRY, other, {**ENTRY, "RepoTags": None}]
    assert docker_archive.chosen([ENTRY], "", "it") is ENTRY
    assert docker_archive.chosen(entries, "db", "it") is other
    assert docker_archive.chosen(entries, "not a name", "it") is other
    assert docker_archive.chosen(entries, "@2", "it") is entries[2]
    with pytest.raises(ImageError, match=r"it has several images .*, @2"):
        docker_archive.chosen(entries, "", "it")
    with pytest.raises(ImageError, match='it has no image "x y"'):
        docker_archive.chosen(entries, "x y", "it")
    with pytest.raises(ImageError, match="available: @0"):
        docker_archive.chosen([{**ENTRY, "RepoTags": None}], "x", "it")


def test_images_without_a_name(archive: Open, tmp_path: Path) -> None:
    """Each can be loaded, by its place in the archive."""
    archive([{**ENTRY, "RepoTags": None}, ENTRY, {**ENTRY, "RepoTags": []}])
    reference = parse(f"docker-archive:{tmp_path}/it.tar")
    budget = Budget(Limits(), lambda: (FREE, FREE))
    assert local_image.named_images(reference, str(tmp_path), budget) == {
        "@0": [],
        "web:1": ["docker.io/library/web:1"],
        "@2": [],
    }
    assert parse(f"docker-archive:{tmp_path}/it.tar:@2").tag == "@2"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"c.json": "{}"}, "rootfs.diff_ids must have 1 entries"),
        ({"c.json": '{"rootfs": {"diff_ids": []}}'}, "rootfs.diff_ids must have 1 entries"),
        ({"c.json": '{"rootfs": {"diff_ids": {"0": 1}}}'}, "rootfs.diff_ids must have 1 entries"),
        ({"l.tar": b"\xfd7zXZ\0" + bytes(99)}, '"l.tar": unsupported compression xz .supported'),
        ({"l.tar": b"BZh91AY" + bytes(99)}, "unsupported compression bzip2"),
        ({"l.tar": b"other"}, "digest mismatch"),
    ],
)
def test_images_that_are_refused(
    archive: Open, tmp_path: Path, files: dict[str, Any], message: str
) -> None:
    """Nothing of them is left in the store."""
    store = Store(str(tmp_path / "data"))
    with (
        Incoming(store, Budget(Limits(), lambda: (FREE, FREE))) as incoming,
        pytest.raises(ImageError, match=message),
    ):
        docker_archive.add_image(incoming, archive([ENTRY], **files), "", silent)
    assert list(Path(store.tmp).iterdir()) == []
