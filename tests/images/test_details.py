"""``ocipod image inspect``, ``history`` and ``tag``; removal of one name of several."""

from __future__ import annotations

import json

import pytest

from tests.support.image_store import ImageStore
from tests.support.images import build, digest, pack

A, B = pack({"a": "1"}), pack({"b": "2"})


def test_inspect(image_store: ImageStore) -> None:
    built = image_store.fetch("one", A, B, config={"Env": ["X=1"], "Cmd": ["sh"]})
    (found,) = json.loads(image_store.ocipod("image", "inspect", built.id).ok().out)
    assert found["id"] == built.id
    assert (found["config"]["Env"], found["config"]["Cmd"]) == (["X=1"], ["sh"])
    assert found["root_fs"]["layers"] == [digest(A), digest(B)]
    assert (found["os"], found["author"]) == ("linux", "")
    assert [step["size"] > 0 for step in found["history"]] == [True, True]
    image_store.ocipod("image", "inspect", "nope").failed('"nope"')


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


def test_an_exported_image_loads_under_its_name(image_store: ImageStore) -> None:
    one = image_store.fetch("one", A)
    image_store.ocipod("image", "tag", one.id, "web:1").ok()
    archive = str(image_store.work / "web.tar")
    image_store.ocipod("image", "export", "web:1", archive).ok()
    image_store.ocipod("image", "rm", one.id).ok()
    out = image_store.ocipod("image", "load", archive).ok().out
    assert out == f"{one.id} docker.io/library/web:1\n"
    assert image_store.listed() == ["docker.io/library/web:1"]


def test_docker_s_archives_load_with_all_images_and_names(image_store: ImageStore) -> None:
    one, two = build([A]), build([B])
    names = {"web:1": one, "team/db": two}
    archive = image_store.work / "both.tar"
    entries, files = [], {}
    for name, built in names.items():
        short = name.partition(":")[0].replace("/", "-")
        files[f"{short}.json"] = built.config
        files[f"{short}/layer.tar"] = built.layers[0]
        entries.append(
            {"Config": f"{short}.json", "RepoTags": [name], "Layers": [f"{short}/layer.tar"]}
        )
    files["manifest.json"] = json.dumps(entries).encode()
    archive.write_bytes(pack(files))
    image_store.ocipod("image", "load", str(archive)).ok()
    assert sorted(image_store.listed()) == [
        "docker.io/library/web:1",
        "docker.io/team/db:latest",
    ]


def test_a_loaded_image_takes_the_name_of_another(image_store: ImageStore) -> None:
    one, two = image_store.fetch("one", A), image_store.fetch("two", B)
    archive = str(image_store.work / "web.tar")
    image_store.ocipod("image", "tag", one.id, "web").ok()
    image_store.ocipod("image", "export", "web", archive).ok()
    image_store.ocipod("image", "tag", two.id, "web").ok()
    image_store.ocipod("image", "load", archive).ok()
    assert json.loads(image_store.ocipod("image", "inspect", "web").ok().out)[0]["id"] == one.id


def test_names_that_the_policy_refuses_are_not_taken(image_store: ImageStore) -> None:
    one = image_store.fetch("one", A)
    image_store.ocipod("image", "tag", one.id, "web").ok()
    archive = str(image_store.work / "web.tar")
    image_store.ocipod("image", "export", "web", archive).ok()
    image_store.ocipod("image", "rm", one.id).ok()
    policy = {"default": "accept", "prefixes": {"docker.io": "reject"}}
    (image_store.work / "config").mkdir()
    (image_store.work / "config/policy.json").write_text(json.dumps(policy))
    option = f"--local-config={image_store.work}/config"
    done = image_store.ocipod(option, "image", "load", archive).ok()
    assert '"docker.io/library/web' in done.err
    assert image_store.listed() == [f"oci-archive:{archive}"]


def test_files_without_images(image_store: ImageStore) -> None:
    tar = image_store.work / "files.tar"
    tar.write_bytes(A)
    image_store.ocipod("image", "load", str(tar)).failed("no images")
    image_store.ocipod("image", "load", str(tar) + "x").failed("no such file")
