"""Images from a registry, through the command line: requests, stored files, refusals."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.images.conftest import Refused
from tests.support import images
from tests.support.ocipod import Ocipod
from tests.support.registry import Registry


@pytest.fixture(scope="module")
def built() -> images.BuiltImage:
    """Three layers; the second is gzip and incompressible, the third zstd."""
    layers = [
        images.busybox_layer(),
        images.pack({"random": os.urandom(400_000)}),
        images.pack({"hello": "world"}),
    ]
    return images.build(layers, {"Cmd": ["cat", "/hello"]}, compression=["", "gzip", "zstd"])


def foreign() -> images.BuiltImage:
    """An image for another platform."""
    return images.BuiltImage([images.pack({"x": "y"})], architecture="s390x")


def stored(work: Path) -> list[str]:
    """Return the files of the store, except its index."""
    top = work / "data" / "cas"
    found = (str(path.relative_to(top)) for path in top.rglob("*") if path.is_file())
    return sorted(path for path in found if not path.startswith("index.db"))


def test_the_whole_way(ocipod: Ocipod, built: images.BuiltImage) -> None:
    """An index, a token, an interrupted connection, and a second fetch without a download."""
    with Registry(token=True) as registry:
        registry.push_index("team/web", "v1", [foreign(), built])
        second = built.manifest_document["layers"][1]["digest"]
        registry.cut[second] = 0.6
        name = f"{registry.host}/team/web:v1"
        assert ocipod("fetch", "--full", name).ok().out == f"{built.id}\n"
        transfers = registry.asked(f"blobs/{second}")
        size = int(built.manifest_document["layers"][1]["size"] * 0.6)
        assert [one.range for one in transfers] == ["", f"bytes={size}-"]
        assert [one.status for one in transfers] == [200, 206]
        registry.forget()
        assert ocipod("fetch", name).ok().out == f"{built.id[7:19]}\n"
        assert [one.method for one in registry.asked("/v2/")] == ["HEAD", "HEAD"]
    assert ocipod("fetch", "--pull-policy=never", name).ok().out == f"{built.id[7:19]}\n"
    assert ocipod("fetch", "--pull-policy=new", built.id[7:19]).ok().out == f"{built.id[7:19]}\n"
    ocipod("fetch", name).failed("connection refused")


def test_a_changed_tag(ocipod: Ocipod, registry: Registry, built: images.BuiltImage) -> None:
    registry.push("web", "latest", built)
    name = f"{registry.host}/web"
    ocipod("fetch", name).ok()
    layers = [*built.layers, images.pack({"more": "x"})]
    changed = images.build(layers, compression=["", "gzip", "zstd", "gzip"])
    registry.push("web", "latest", changed)
    assert ocipod("fetch", "--full", "--pull-policy=new", name).ok().out == f"{built.id}\n"
    registry.forget()
    assert ocipod("fetch", "--full", name).ok().out == f"{changed.id}\n"
    asked = [one.path.rpartition("/")[2] for one in registry.asked("blobs")]
    document = changed.manifest_document
    assert sorted(asked) == sorted([document["config"]["digest"], document["layers"][-1]["digest"]])


def test_a_cut_that_stays_is_gone_on_with_later(
    ocipod: Ocipod, registry: Registry, built: images.BuiltImage, work: Path
) -> None:
    registry.push("web", "v1", built)
    second = built.manifest_document["layers"][1]
    digest = second["digest"]
    name = f"{registry.host}/web:v1"
    registry.cut[digest] = 0.6
    registry.broken.add(digest)  # after that nothing more
    ocipod("fetch", name).failed("interrupted after", "fetch again")
    kept = {
        one["digest"]: work / "data" / "cas" / "partial" / one["digest"].replace(":", "-")
        for one in (built.manifest_document["config"], *built.manifest_document["layers"])
    }
    assert {work / "data" / "cas" / path for path in stored(work)} <= {*kept.values()}
    assert kept[digest].stat().st_size == int(second["size"] * 0.6)
    # The others were downloaded at the same time: what is complete is not asked for again.
    complete = [
        one["digest"]
        for one in (built.manifest_document["config"], *built.manifest_document["layers"])
        if kept[one["digest"]].exists() and kept[one["digest"]].stat().st_size == one["size"]
    ]
    assert complete
    registry.broken.clear()
    registry.forget()
    ocipod("fetch", name).ok()
    assert [one.range for one in registry.asked(digest)] == [f"bytes={int(second['size'] * 0.6)}-"]
    assert not [one for one in complete if registry.asked(one)]
    assert not [path for path in stored(work) if path.startswith(("partial", "tmp"))]


def fetch_a_part(ocipod: Ocipod, registry: Registry, built: images.BuiltImage) -> None:
    """Fetch an image from a registry that always fails in the second layer."""
    registry.push("web", "v1", built)
    digest = built.manifest_document["layers"][1]["digest"]
    registry.cut[digest] = 0.6
    registry.broken.add(digest)
    ocipod("fetch", f"{registry.host}/web:v1").failed("interrupted after")


def test_a_collection_frees_what_was_cut(
    ocipod: Ocipod, registry: Registry, built: images.BuiltImage, work: Path
) -> None:
    fetch_a_part(ocipod, registry, built)
    assert stored(work)
    assert re.search("[1-4] stray files? removed", ocipod("image", "gc").ok().out)
    assert stored(work) == []


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_corrupt_byte(
    ocipod: Ocipod, registry: Registry, built: images.BuiltImage, work: Path, layer: int
) -> None:
    registry.push("web", "v1", built)
    digest = built.manifest_document["layers"][layer]["digest"]
    blob = bytearray(registry.blobs["web", digest])
    blob[len(blob) // 2] ^= 1
    registry.blobs["web", digest] = bytes(blob)
    ocipod("fetch", f"{registry.host}/web:v1").failed("digest mismatch", digest)
    assert stored(work) == []
    ocipod("fetch", "--pull-policy=never", f"{registry.host}/web:v1").failed("in the store")


def test_a_corrupt_manifest(
    ocipod: Ocipod, refused: Refused, registry: Registry, built: images.BuiltImage, work: Path
) -> None:
    media_type, data = "application/json", built.manifest + b" "
    registry.push("web", "v1", built)
    registry.tags["web", built.id] = (media_type, data)
    registry.digest_headers = False
    refused(f"{registry.host}/web@{built.id}", "digest mismatch")
    assert stored(work) == []


def test_a_shorter_and_a_longer_blob(
    ocipod: Ocipod, refused: Refused, registry: Registry, built: images.BuiltImage, work: Path
) -> None:
    registry.push("web", "v1", built)
    digest = built.manifest_document["layers"][2]["digest"]
    for wrong in (built.stored[2][:-1], built.stored[2] + b"x"):
        registry.blobs["web", digest] = wrong
        refused(f"{registry.host}/web:v1", "size mismatch")
    assert stored(work) == []


def test_a_registry_that_does_not_tell_digests(
    ocipod: Ocipod, registry: Registry, built: images.BuiltImage
) -> None:
    registry.digest_headers = False
    newer = images.build([images.pack({"file": "newer"})])
    for image in (built, newer):
        registry.push("web", "v1", image)
        name = f"{registry.host}/web:v1"
        out = ocipod("fetch", "--full", "--pull-policy=update", name).ok().out
        assert out == f"{image.id}\n"


def test_platforms(ocipod: Ocipod, refused: Refused, registry: Registry) -> None:
    registry.push_index("web", "v1", [foreign()])
    refused(f"{registry.host}/web:v1", "no image for", "available: linux/s390x")


def test_a_platform_that_the_user_chooses(
    ocipod: Ocipod, registry: Registry, built: images.BuiltImage
) -> None:
    """The name refers to the image that was fetched last, as with docker."""
    other = foreign()
    registry.push_index("web", "v1", [other, built])
    name = f"{registry.host}/web:v1"

    def fetched(*options: str) -> str:
        return ocipod("fetch", "--full", *options, name).ok().out.strip()

    own = f"--platform=linux/{images.MACHINE}"
    assert fetched() == built.id
    for policy in ("new", "update"):
        assert fetched("--platform=linux/s390x", f"--pull-policy={policy}") == other.id
        words = ("fetch", own, "--pull-policy=never", name)
        ocipod(*words).failed("linux/s390x, not for linux/")
        assert fetched(own, f"--pull-policy={policy}") == built.id
    ocipod("fetch", "--platform=linux/riscv64", name).failed("no image for linux/riscv64")
    ocipod("fetch", "--platform=windows/amd64", name).failed("windows/amd64")
    ocipod("fetch", "--platform=linux/../x", name).failed("invalid platform")
    ocipod("fetch", "--platform=linux/s390x", built.id).failed("the platform linux/")


def test_names_that_are_not_there(ocipod: Ocipod, registry: Registry) -> None:
    ocipod("fetch", f"{registry.host}/web:v1").failed("404", "manifest unknown", "/v2/web/")
    ocipod("fetch", "Web").failed("lower case")
    ocipod("fetch", "web", "--pull-policy=sometimes").failed("new or update or never")


def test_mirrors(ocipod: Ocipod, registry: Registry, built: images.BuiltImage, work: Path) -> None:
    """A mirror is tried first, with its own path; missing blobs come from the registry."""
    with Registry() as mirror:
        mirror.push("hub/team/web", "v1", built)
        registry.push("team/web", "v1", built)
        registry.push("team/other", "v1", built)
        mirrors = {"mirrors": {registry.host: [f"{mirror.host}/hub"]}}
        (work / "config" / "registries.json").write_text(json.dumps(mirrors))
        ocipod("fetch", f"{registry.host}/team/web:v1").ok()
        assert registry.log == []
        assert mirror.asked("/v2/hub/team/web/blobs")
        ocipod("fetch", f"{registry.host}/team/other:v1").ok()
        assert mirror.asked("/v2/hub/team/other/manifests")[0].status == 404
    ocipod("fetch", f"{registry.host}/team/web:v1").ok()  # the mirror is gone


def test_a_mirror_with_damaged_blobs(
    ocipod: Ocipod, registry: Registry, built: images.BuiltImage, work: Path
) -> None:
    with Registry() as mirror:
        for one in (mirror, registry):
            one.push("web", "v1", built)
        digest = built.manifest_document["layers"][2]["digest"]
        mirror.blobs["web", digest] = built.stored[2][:-1] + b"x"
        mirrors = {"mirrors": {registry.host: [mirror.host]}}
        (work / "config" / "registries.json").write_text(json.dumps(mirrors))
        ocipod("fetch", f"{registry.host}/web:v1").ok()
        assert registry.asked(digest)


def test_credentials(ocipod: Ocipod, built: images.BuiltImage, work: Path) -> None:
    with Registry(token=True, basic=("me", "secret")) as registry:
        registry.push("web", "v1", built)
        name = f"{registry.host}/web:v1"
        ocipod("fetch", name).failed("401", "auth.json")
        auths = {registry.host: {"username": "me", "password": "wrong"}}
        (work / "config" / "auth.json").write_text(json.dumps({"auths": auths}))
        refused = ocipod("fetch", name).failed("401", "does not accept")
        assert "wrong" not in refused.err
        auths[registry.host]["password"] = "secret"
        (work / "config" / "auth.json").write_text(json.dumps({"auths": auths}))
        ocipod("fetch", name).ok()
        shown = ocipod("config").ok()
        assert shown.json["credentials"] == {registry.host: f"{work}/config/auth.json"}
        assert "secret" not in shown.out


def test_credentials_of_the_user_who_has_called_sudo(
    ocipod: Ocipod, built: images.BuiltImage, work: Path
) -> None:
    """Root does not use them, and says so before the refusal."""
    with Registry(basic=("me", "secret")) as registry:
        registry.push("web", "v1", built)
        auths = {registry.host: {"username": "me", "password": "secret"}}
        (work / ".docker").mkdir()
        file = work / ".docker/config.json"
        file.write_text(json.dumps({"auths": auths}))
        os.chown(file, 1000, 1000)
        warning = f'the credentials in "{file}": the file belongs to uid 1000'
        ocipod("fetch", f"{registry.host}/web:v1").failed("401", warning)
        os.chown(file, 0, 0)
        ocipod("fetch", f"{registry.host}/web:v1").ok()


def test_two_fetches_of_one_image(
    ocipod: Ocipod, registry: Registry, built: images.BuiltImage, work: Path
) -> None:
    registry.push("web", "v1", built)
    name = f"{registry.host}/web:v1"
    for result in ocipod.together(*[["fetch", "--full", name]] * 4):
        assert result.ok().out == f"{built.id}\n"
    assert not [path for path in stored(work) if path.startswith(("partial", "tmp"))]


def test_killed_while_it_fetches(
    ocipod: Ocipod, registry: Registry, built: images.BuiltImage, work: Path
) -> None:
    registry.push("web", "v1", built)
    digest = built.manifest_document["layers"][1]["digest"]
    registry.cut[digest] = 0.6
    registry.slow.add(digest)
    fetching = ocipod.popen("fetch", f"{registry.host}/web:v1")
    try:
        assert registry.slow_reached.wait(30)
    finally:
        fetching.kill()
        fetching.wait()
        ocipod.started.remove(fetching)
        registry.slow.clear()
    ocipod("fetch", "--pull-policy=never", f"{registry.host}/web:v1").failed("in the store")
    assert ocipod("fetch", "--full", f"{registry.host}/web:v1").ok().out == f"{built.id}\n"


def test_ten_fetches_of_the_same_image(ocipod: Ocipod, registry: Registry, work: Path) -> None:
    """They share the downloads, several at a time, and do not deadlock."""
    layers = [images.busybox_layer()]
    layers += [images.pack({f"d{number}": os.urandom(50_000)}) for number in range(11)]
    image = images.build(layers)
    registry.push("web", "v1", image)
    name = f"{registry.host}/web:v1"
    running = [ocipod.popen("fetch", "--full", name, stdout=subprocess.PIPE) for _ in range(10)]
    for process in running:
        out, _ = process.communicate(timeout=120)
        ocipod.started.remove(process)
        assert (process.returncode, out.decode()) == (0, f"{image.id}\n")
    assert not [path for path in stored(work) if path.startswith(("partial", "tmp"))]


def test_image_gc_removes_what_was_cut(
    ocipod: Ocipod, registry: Registry, built: images.BuiltImage, work: Path
) -> None:
    fetch_a_part(ocipod, registry, built)
    out = ocipod("image", "gc", "--grace-period=0s").ok().out
    assert re.search("[1-4] stray files? removed", out)
    assert stored(work) == []


def test_a_pod_from_a_registry(ocipod: Ocipod, built: images.BuiltImage) -> None:
    """``run`` fetches missing images, and needs no registry for stored ones."""
    with Registry(token=True) as registry:
        registry.push("team/web", "v1", built)
        name = f"{registry.host}/team/web:v1"
        try:
            assert "world" in ocipod("run", "--net=none", name).ok().out
            registry.forget()
            assert "world" in ocipod("run", "--net=none", name).ok().out
            assert registry.log == []
        finally:
            ocipod.finish()
    assert ocipod.pods() == []
