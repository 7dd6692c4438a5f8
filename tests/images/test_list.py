"""``ocipod image list``: selection, order and format of images."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import images
from tests.support.image_store import ImageStore
from tests.support.images import pack

A, B, SHARED = pack({"a": "1"}), pack({"b": "2"}), pack({"shared": "s" * 5000})


def test_list(image_store: ImageStore) -> None:
    one = image_store.fetch("one", A)
    image_store.fetch("two", A, B)
    lines = image_store.ocipod("image", "list").ok().out.splitlines()
    assert lines[0].split("\t")[0] == "ID"
    assert [word.strip() for word in lines[0].split("\t") if word][1:] == [
        "NAME",
        "SIZE",
        "IMPORT TIME",
        "LAST USED",
    ]
    assert lines[1].startswith(one.id[7:19])
    assert image_store.listed() == [image_store.name("one"), image_store.name("two")]
    assert image_store.ocipod(
        "image", "list", "--no-legend", "--fields=name", "--sort=name", "--order=desc"
    ).out.split() == [image_store.name("two"), image_store.name("one")]
    full = image_store.ocipod("image", "list", "--full", "--no-legend", "--fields=id,platform,size")
    assert full.ok().out.splitlines()[0].startswith(f"{one.id}\t")
    assert f"linux/{images.MACHINE}" in full.out
    assert str(sum(map(len, one.blobs.values())) + 1) in full.out


def test_list_counts_the_tree(image_store: ImageStore) -> None:
    built = image_store.fetch("one", SHARED)
    (entry,) = image_store.ocipod("image", "list", "--format=json").ok().json
    assert entry["size"] == sum(map(len, built.blobs.values())) + 5000
    assert entry["id"] == built.id
    assert abs(entry["import_time"] - time.time()) < 60


def test_list_sorts_numbers_as_such(image_store: ImageStore) -> None:
    for name, size in (("middle", 5_000), ("small", 50), ("large", 500_000)):
        image_store.fetch(name, pack({"x": os.urandom(size)}))
    out = (
        image_store.ocipod("image", "list", "--no-legend", "--fields=name", "--sort=size").ok().out
    )
    assert [Path(name).name for name in out.split()] == ["small", "middle", "large"]


@pytest.mark.parametrize("option", ["--fields=id,x", "--sort=x", "--order=up", "--format=xml"])
def test_list_refuses(image_store: ImageStore, option: str) -> None:
    image_store.ocipod("image", "list", option).failed()


def test_list_keeps_to_its_lines_whatever_an_image_says(image_store: ImageStore) -> None:
    layout = image_store.work / "one"
    config = images.make_layout(layout, layers=[A]).config_document
    index = json.loads((layout / "index.json").read_text())
    (entry,) = index["manifests"]
    manifest = json.loads((layout / "blobs/sha256" / entry["digest"][7:]).read_text())
    put_blob(layout, manifest["config"], config | {"variant": "v1\n\t\x1b[2J"})
    put_blob(layout, entry, manifest)
    (layout / "index.json").write_text(json.dumps(index))
    image_store.ocipod("fetch", image_store.name("one")).ok()
    out = image_store.ocipod("image", "list", "--no-legend", "--fields=platform").ok().out
    assert out == f"linux/{images.MACHINE}/v1\\n\\t\\x1b[2J\n"


def put_blob(layout: Path, descriptor: dict[str, Any], document: object) -> None:
    """Replace the document to which a descriptor refers, and update the descriptor."""
    data = images.to_json(document)
    descriptor.update(digest=images.digest(data), size=len(data))
    (layout / "blobs/sha256" / descriptor["digest"][7:]).write_bytes(data)


def test_list_shows_a_damaged_image(image_store: ImageStore) -> None:
    built = image_store.fetch("one", A)
    (image_store.blobs / images.digest(built.config)[7:]).write_text("{}")
    assert "damaged" in image_store.ocipod("image", "list", "--fields=name,platform").ok().out
    image_store.ocipod("image", "rm", image_store.name("one")).ok()
    assert image_store.listed() == []
