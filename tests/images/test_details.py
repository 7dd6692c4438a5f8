"""``ocipod image inspect``, ``history`` and ``tag``; removal of one name of several."""

from __future__ import annotations

import json

import pytest

from tests.support.image_store import ImageStore
from tests.support.images import digest, pack

A, B = pack({"a": "1"}), pack({"b": "2"})


def test_inspect(image_store: ImageStore) -> None:
    built = image_store.fetch("one", A, B, config={"Env": ["X=1"], "Cmd": ["sh"]})
    (found,) = json.loads(image_store.ocipod("image", "inspect", built.id).ok().out)
    assert found["id"] == built.id
    assert (found["config"]["Env"], found["config"]["Cmd"]) == (["X=1"], ["sh"])
    assert found["root_fs"]["layers"] == [digest(A), digest(B)]
    assert (found["os"], found["author"]) == ("linux", "")
    assert [step["size"] > 0 for step in found["history"]] == [True, True]
    image_store.ocipod("image", "inspect", "nope").failed('"nope" is not in the store')


def test_history(image_store: ImageStore) -> None:
    built = image_store.fetch("one", A, B)
    lines = image_store.ocipod("image", "history", built.id).ok().out.splitlines()
    assert lines[0].split() == ["CREATED", "CREATED", "BY", "SIZE", "COMMENT"]
    assert len(lines) == 3


def test_tag_moves_a_name(image_store: ImageStore) -> None:
    one, two = image_store.fetch("one", A), image_store.fetch("two", B)
    image_store.ocipod("image", "tag", one.id, "localhost:5000/team/web:1").ok()
    image_store.ocipod("image", "tag", "localhost:5000/team/web:1", "web").ok()
    assert "docker.io/library/web:latest" in image_store.listed()
    image_store.ocipod("image", "tag", two.id, "web").ok()
    manifest = image_store.ocipod("image", "inspect", "web").ok().out
    assert json.loads(manifest)[0]["id"] == two.id


@pytest.mark.parametrize(
    "name", ["sha256:0123456", "oci:/x", "/x", "web@sha256:" + "0" * 64, "UPPER", "a b", ""]
)
def test_names_that_cannot_be_tags(image_store: ImageStore, name: str) -> None:
    one = image_store.fetch("one", A)
    image_store.ocipod("image", "tag", one.id, name).failed("")
    assert image_store.listed() == [image_store.name("one")]


def test_untag(image_store: ImageStore) -> None:
    one = image_store.fetch("one", A)
    image_store.ocipod("image", "tag", one.id, "web").ok()
    out = image_store.ocipod("image", "rm", "--untag", "web").ok().out
    assert out.startswith("untagged docker.io/library/web:latest\n1 of 1 removed")
    assert image_store.listed() == [image_store.name("one")]
    image_store.ocipod("image", "tag", one.id, "web").ok()
    image_store.ocipod("image", "rm", "--untag", one.id[7:19]).ok()
    assert image_store.listed() == []
