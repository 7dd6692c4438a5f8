"""``ocipod image list``: which images, in which order and form."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import images
from tests.support.images import pack
from tests.support.shop import Shop

A, B, SHARED = pack({"a": "1"}), pack({"b": "2"}), pack({"shared": "s" * 5000})


def test_list(shop: Shop) -> None:
    one = shop.fetch("one", A)
    shop.fetch("two", A, B)
    lines = shop.ocipod("image", "list").ok().out.splitlines()
    assert lines[0].split("\t")[0] == "ID"
    assert [word.strip() for word in lines[0].split("\t") if word][1:] == [
        "NAME",
        "SIZE",
        "IMPORT TIME",
        "LAST USED",
    ]
    assert lines[1].startswith(one.id[7:19])
    assert shop.listed() == [shop.name("one"), shop.name("two")]
    assert shop.ocipod(
        "image", "list", "--no-legend", "--fields=name", "--sort=name", "--order=desc"
    ).out.split() == [shop.name("two"), shop.name("one")]
    full = shop.ocipod("image", "list", "--full", "--no-legend", "--fields=id,platform,size")
    assert full.ok().out.splitlines()[0].startswith(f"{one.id}\t")
    assert f"linux/{images.MACHINE}" in full.out
    assert str(sum(map(len, one.blobs.values())) + 1) in full.out


def test_list_counts_the_tree(shop: Shop) -> None:
    built = shop.fetch("one", SHARED)
    (entry,) = shop.ocipod("image", "list", "--format=json").ok().json
    assert entry["size"] == sum(map(len, built.blobs.values())) + 5000
    assert entry["id"] == built.id
    assert abs(entry["import_time"] - time.time()) < 60


def test_list_sorts_numbers_as_such(shop: Shop) -> None:
    for name, size in (("middle", 5_000), ("small", 50), ("large", 500_000)):
        shop.fetch(name, pack({"x": os.urandom(size)}))
    out = shop.ocipod("image", "list", "--no-legend", "--fields=name", "--sort=size").ok().out
    assert [Path(name).name for name in out.split()] == ["small", "middle", "large"]


@pytest.mark.parametrize("option", ["--fields=id,x", "--sort=x", "--order=up", "--format=xml"])
def test_list_refuses(shop: Shop, option: str) -> None:
    shop.ocipod("image", "list", option).failed()


def test_list_keeps_to_its_lines_whatever_an_image_says(shop: Shop) -> None:
    layout = shop.work / "one"
    config = images.make_layout(layout, layers=[A]).config_document
    index = json.loads((layout / "index.json").read_text())
    (entry,) = index["manifests"]
    manifest = json.loads((layout / "blobs/sha256" / entry["digest"][7:]).read_text())
    put_blob(layout, manifest["config"], config | {"variant": "v1\n\t\x1b[2J"})
    put_blob(layout, entry, manifest)
    (layout / "index.json").write_text(json.dumps(index))
    shop.ocipod("fetch", shop.name("one")).ok()
    out = shop.ocipod("image", "list", "--no-legend", "--fields=platform").ok().out
    assert out == f"linux/{images.MACHINE}/v1\\n\\t\\x1b[2J\n"


def put_blob(layout: Path, descriptor: dict[str, Any], document: object) -> None:
    """Another document where the descriptor, which is changed, leads to."""
    data = images.to_json(document)
    descriptor.update(digest=images.digest(data), size=len(data))
    (layout / "blobs/sha256" / descriptor["digest"][7:]).write_bytes(data)


def test_list_shows_a_damaged_image(shop: Shop) -> None:
    built = shop.fetch("one", A)
    (shop.blobs / images.digest(built.config)[7:]).write_text("{}")
    assert "damaged" in shop.ocipod("image", "list", "--fields=name,platform").ok().out
    shop.ocipod("image", "rm", shop.name("one")).ok()
    assert shop.listed() == []
