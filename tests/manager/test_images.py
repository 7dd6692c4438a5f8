"""``ocictl image inspect``, ``history``, ``tag``, ``save``, ``load``, and ``rmi`` of one name."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.support import images
from tests.support.daemon import Daemon
from tests.support.registry import Registry

LAYER = images.pack({"a": "1"})
NAME = "docker.io/library/web:1"


@pytest.fixture
def daemon(shared_daemon: Daemon) -> Daemon:
    for one in json.loads(shared_daemon.ctl("images", "--format=json").ok().out):
        shared_daemon.ctl("rmi", "--force", one["id"])
    return shared_daemon


@pytest.fixture
def built(daemon: Daemon, work: Path) -> images.BuiltImage:
    """An image in the daemon's store, called NAME."""
    one = images.make_layout(work / "one", layers=[LAYER], config={"Env": ["X=1"]})
    daemon.ctl("pull", f"oci:{work}/one").ok()
    daemon.ctl("tag", f"oci:{work}/one", "web:1").ok()
    daemon.ctl("rmi", f"oci:{work}/one").ok()
    return one


def names(daemon: Daemon) -> list[str]:
    return [one["name"] for one in json.loads(daemon.ctl("images", "--format=json").ok().out)]


def test_inspect_and_history(daemon: Daemon, built: images.BuiltImage) -> None:
    (found,) = json.loads(daemon.ctl("image", "inspect", "web:1").ok().out)
    assert (found["Id"], found["RepoTags"]) == (built.id, [NAME])
    form = "{{.Config.Env}} {{.Os}} {{.Config.User}}|"
    assert daemon.ctl("image", "inspect", "--format", form, "web:1").ok().out == "[X=1] linux |\n"
    lines = daemon.ctl("history", "web:1").ok().out.splitlines()
    assert lines[0].split() == ["IMAGE", "CREATED", "CREATED", "BY", "SIZE", "COMMENT"]
    assert len(lines) == 2
    short = built.id.partition(":")[2][:12]
    assert daemon.ctl("history", "--quiet", "web:1").ok().out == f"{short}\n"
    assert daemon.ctl("history", "-q", "--no-trunc", "web:1").ok().out == f"{built.id}\n"
    form = "{{.ID}} {{.Size}}|{{.CreatedBy}}"
    fields = daemon.ctl("history", "--human=false", "--format", form, "web:1").ok().out
    assert re.match(rf"{short} [1-9]\d*\|", fields)
    for words in (("image", "inspect"), ("history",), ("save",)):
        result = daemon.ctl(*words, "nope")
        assert result.status == 1
        assert '"nope" is not' in result.err


def test_what_a_pull_prints(daemon: Daemon) -> None:
    """The ID goes to standard output, the progress to standard error."""
    layers = [images.busybox_layer(), images.pack({"a": "1"}), images.pack({"b": "2"})]
    image = images.build(layers)
    with Registry() as registry:
        registry.push("web", "v1", image)
        name = f"{registry.host}/web:v1"
        result = daemon.ctl("pull", name).ok()
        assert result.out == f"{image.id}\n"
        *lines, last = result.err.splitlines()
        for number in (1, 2, 3):
            states = [line.split()[4] for line in lines if line.startswith(f"layer {number} of 3")]
            assert states == ["fetched", "unpacked"]
        assert last.startswith(f"{name}: 3 layers, ")
        assert daemon.ctl("pull", name).ok().err == f"{name}: up to date\n"
        assert daemon.ctl("pull", "--quiet", name).ok().err == ""
        result = daemon.ctl("pull", f"{registry.host}/nope")
        assert (result.status, result.out, result.err.count("\n")) == (1, "", 1)


def test_a_new_container_shows_the_pull_of_its_image(daemon: Daemon) -> None:
    with Registry() as registry:
        image = images.build([images.busybox_layer()])
        registry.push("web", "v1", image)
        name = f"{registry.host}/web:v1"
        words = ("run", "--rm", "--network=none")
        result = daemon.ctl(*words, name, "/bin/echo", "hi").ok()
        assert result.out == "hi\n"
        assert result.err.splitlines()[-1].startswith(f"{name}: 1 layer, ")
        assert daemon.ctl(*words, name, "/bin/echo", "hi").ok().err == ""
        assert registry.log != []
        registry.forget()
        assert daemon.ctl(*words, "--pull=never", name, "/bin/echo", "hi").ok().err == ""
        assert registry.log == []
        result = daemon.ctl(*words, "--pull=always", name, "/bin/echo", "hi").ok()
        assert result.err == f"{name}: up to date\n"
        daemon.ctl("rmi", name).ok()
        assert daemon.ctl(*words, "--quiet", name, "/bin/echo", "hi").ok().err == ""
        result = daemon.ctl(*words, f"{registry.host}/nope", "/bin/echo", "hi")
        assert (result.status, result.out, result.err.count("\n")) == (125, "", 1)


def test_lists_of_some_images(daemon: Daemon, built: images.BuiltImage) -> None:
    daemon.ctl("tag", built.id, "localhost/a/db:2").ok()
    form = "--format={{.Repository}}:{{.Tag}}"
    for words, expected in (
        (("web",), [NAME]),
        (("web:1",), [NAME]),
        (("docker.io/library/web",), [NAME]),
        (("web:2",), []),
        (("w*",), [NAME]),
        (("localhost/*/*",), ["localhost/a/db:2"]),
        (("localhost/*",), []),
        (("--filter=reference=*:1",), [NAME]),
        (("--filter=dangling=true",), []),
        (("--all", "--filter=dangling=false"), [NAME, "localhost/a/db:2"]),
    ):
        assert sorted(daemon.ctl("images", form, *words).ok().out.split()) == expected, words
    daemon.ctl("images", "--filter=since=web").failed('unknown filter "since"', "reference")
    daemon.ctl("images", "--filter=dangling=x").failed("dangling", '"x"')
    table = daemon.ctl("images", "--digests", "web").ok().out.splitlines()
    assert [line.split()[2] for line in table] == ["DIGEST", "<none>"]


def test_prune(daemon: Daemon, built: images.BuiltImage, work: Path) -> None:
    other = images.make_layout(work / "other", layers=[images.busybox_layer()])
    daemon.ctl("pull", f"oci:{work}/other").ok()
    daemon.ctl("tag", f"oci:{work}/other", "box:1").ok()
    daemon.ctl("rmi", f"oci:{work}/other").ok()
    daemon.ctl("create", "--name=c1", "--network=none", "box:1", "/bin/true").ok()
    none = "Total reclaimed space: 0 B\n"
    assert daemon.ctl("image", "prune", "--force").ok().out == none
    assert daemon.ctl("image", "prune", "--all").ok().out == ""  # standard input says no
    assert len(names(daemon)) == 2
    lines = daemon.ctl("image", "prune", "-a", "-f").ok().out.splitlines()
    assert lines[0] == built.id
    assert re.fullmatch(r"Total reclaimed space: [1-9].*B", lines[1])
    assert names(daemon) == ["docker.io/library/box:1"]
    daemon.ctl("network", "create", "n1").ok()
    container_id = daemon.get("c1")["id"]
    text = daemon.ctl("system", "prune", "--force").ok().out
    assert text.startswith(
        f"Deleted Containers:\n{container_id}\n\nDeleted Networks:\nn1\n\nTotal reclaimed"
    )
    assert names(daemon) == ["docker.io/library/box:1"]
    volume = daemon.ctl("volume", "create").ok().out
    text = daemon.ctl("system", "prune", "--force", "--all", "--volumes").ok().out
    assert f"Deleted Volumes:\n{volume}\nDeleted Images:\n{other.id}\n\nTotal" in text
    assert names(daemon) == []


def test_rmi_removes_one_name_of_several(daemon: Daemon, built: images.BuiltImage) -> None:
    daemon.ctl("tag", built.id, "other").ok()
    daemon.ctl("rmi", "web:1").ok()
    assert names(daemon) == ["docker.io/library/other:latest"]
    daemon.ctl("rmi", "other").ok()
    assert names(daemon) == []


def test_save_and_load(daemon: Daemon, built: images.BuiltImage, work: Path) -> None:
    archive = work / "web.tar"
    assert daemon.ctl("save", "-o", str(archive), "web:1").ok().out == ""
    assert [path.name for path in work.glob("web.tar*")] == ["web.tar"]
    daemon.ctl("rmi", "web:1").ok()
    loaded = daemon.ctl("load", "-i", str(archive)).ok().out
    assert loaded == f"Loaded image: {NAME}\n"
    assert json.loads(daemon.ctl("image", "inspect", "web:1").ok().out)[0]["Id"] == built.id


def test_save_and_load_through_pipes(daemon: Daemon, built: images.BuiltImage) -> None:
    command = [*daemon.client, "save", "web:1"]
    saved = subprocess.run(command, check=True, capture_output=True).stdout
    daemon.ctl("rmi", built.id).ok()
    command = [*daemon.client, "load"]
    loaded = subprocess.run(command, input=saved, check=True, capture_output=True).stdout
    assert loaded.decode() == f"Loaded image: {NAME}\n"


def test_a_damaged_image_leaves_no_archive(
    daemon: Daemon, built: images.BuiltImage, work: Path
) -> None:
    """The daemon detects it while sending: the client must not keep the file."""
    layer = images.digest(built.stored[0]).partition(":")[2]
    blob = daemon.pods.directory / "cas/blobs/sha256" / layer
    blob.write_bytes(b"x" * blob.stat().st_size)
    result = daemon.ctl("save", "-o", str(work / "web.tar"), "web:1")
    assert result.status == 1
    assert result.err.startswith("ocictl: ")
    assert list(work.glob("web.tar*")) == []


@pytest.mark.parametrize("body", [{}, {"path": "web.tar"}, {"path": "/nope"}, {"path": "/etc"}])
def test_what_cannot_be_loaded(daemon: Daemon, body: dict[str, str]) -> None:
    assert daemon("POST", "/v1/images/load", body).status in (400, 404, 500)
    assert names(daemon) == []


def test_docker_s_reader_accepts_the_archive(
    daemon: Daemon, built: images.BuiltImage, work: Path
) -> None:
    archive = work / "web.tar"
    daemon.ctl("save", "-o", str(archive), "web:1").ok()
    with tarfile.open(archive) as opened:
        (entry,) = json.load(opened.extractfile("manifest.json"))  # type: ignore[arg-type]
        assert entry["RepoTags"] == [NAME]
        assert set(entry["Layers"]) | {entry["Config"]} <= set(opened.getnames())
    if not shutil.which("skopeo"):
        pytest.skip("skopeo is not installed")
    command = ["skopeo", "inspect", "--config", f"docker-archive:{archive}:{NAME}"]
    out = subprocess.run(command, check=True, capture_output=True).stdout
    assert json.loads(out)["config"]["Env"] == ["X=1"]
    assert built.id
