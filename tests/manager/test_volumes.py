"""Volumes: created by containers or ``ocictl volume``, filled, listed, removed when unused."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from ociruntime.manager.containers.container_names import is_id
from tests.support.daemon import STAYS, Daemon
from tests.support.images import make_layout, member
from tests.support.pod_images import busybox


@pytest.fixture
def daemon(shared_daemon: Daemon) -> Daemon:
    for one in json.loads(shared_daemon.ctl("volume", "ls", "--format=json").ok().out):
        shared_daemon.ctl("volume", "rm", one["name"]).ok()
    return shared_daemon


def names(daemon: Daemon, *filters: str) -> list[str]:
    words = [f"--filter={one}" for one in filters]
    return daemon.ctl("volume", "ls", "--quiet", *words).ok().out.split()


def mounting(daemon: Daemon, shell_root: str, volume: str, name: str = "c1") -> None:
    daemon.create(
        name,
        rootfs=shell_root,
        command=STAYS,
        volumes=[{"name": volume, "target": "/data"}],
    )


def test_files_outlive_the_container(daemon: Daemon, shell_root: str) -> None:
    words = ("-v", "data:/data", f"--rootfs={shell_root}", "--network=none", "/bin/sh", "-c")
    daemon.ctl("run", "--rm", *words, "echo kept >/data/file").ok()
    assert names(daemon) == ["data"]
    assert daemon.ctl("run", "--rm", *words, "cat /data/file").ok().out == "kept\n"
    (shown,) = json.loads(daemon.ctl("volume", "inspect", "data").ok().out)
    assert shown.pop("CreatedAt").endswith("Z")
    assert (shown["Name"], shown["Mountpoint"]) == ("data", str(daemon.root / "volumes/data"))
    assert daemon.ctl("volume", "rm", "data").ok().out == "data\n"
    assert os.listdir(daemon.root / "volumes") == []


def test_create(daemon: Daemon) -> None:
    assert daemon.ctl("volume", "create", "one").ok().out == "one\n"
    assert daemon.ctl("volume", "create", "one").ok().out == "one\n"
    generated = daemon.ctl("volume", "create").ok().out.strip()
    assert is_id(generated)
    assert names(daemon) == sorted(["one", generated])
    assert (daemon.root / "volumes/one").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("name", ["../x", ".x", "a/b", "", "a b", "x" * 129])
def test_bad_names(daemon: Daemon, name: str) -> None:
    daemon("POST", "/v1/volumes", {"name": name}).failed(400, "name")
    assert names(daemon) == []


@pytest.mark.parametrize("name", ["..", ".removing-1", "%2e%2e%2fcontainers", "nope"])
def test_only_volumes_are_found(daemon: Daemon, name: str) -> None:
    for method in ("GET", "DELETE"):
        daemon(method, f"/v1/volumes/{name}").failed(404)
    assert (daemon.root / "containers").is_dir()


def test_used_volumes_stay(daemon: Daemon, shell_root: str) -> None:
    mounting(daemon, shell_root, "data")
    daemon.ctl("volume", "create", "spare").ok()
    assert names(daemon, "dangling=true") == ["spare"]
    assert names(daemon, "dangling=false") == ["data"]
    assert names(daemon, "name=at") == ["data"]
    result = daemon.ctl("volume", "rm", "data")
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith('ocictl: remove volume "data": in use by')
    assert " c1 " in result.err
    assert daemon.ctl("volume", "prune", "--force").ok().out.startswith("Total"), "a named one"
    pruned = daemon.ctl("volume", "prune", "--force", "--all").ok().out
    assert pruned.startswith("spare\nTotal reclaimed space: ")
    assert names(daemon) == ["data"]
    daemon.remove("c1")
    daemon.ctl("volume", "rm", "data").ok()


def test_prune_asks_first(daemon: Daemon) -> None:
    daemon.ctl("volume", "create", "one").ok()
    result = daemon.ctl("volume", "prune").ok()
    assert "[y/N]" in result.err
    assert names(daemon) == ["one"]


def test_missing_volumes(daemon: Daemon) -> None:
    result = daemon.ctl("volume", "rm", "nope")
    assert (result.status, result.out) == (1, "")
    assert 'no volume named "nope"' in result.err
    assert daemon.ctl("volume", "rm", "--force", "nope").status == 0
    assert daemon.ctl("volume", "inspect", "nope").status == 1


def test_a_hostile_tree_is_removed_and_its_links_are_not_followed(
    daemon: Daemon, shell_root: str, work: Path
) -> None:
    outside = work / "outside"
    outside.mkdir()
    (outside / "file").touch()
    daemon.ctl("volume", "create", "data").ok()
    volume = daemon.root / "volumes/data"
    (volume / "link").symlink_to(outside)
    deep = os.open(volume, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d" * 100, dir_fd=deep)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)
    daemon.ctl("volume", "rm", "data").ok()
    assert (outside / "file").exists()
    assert os.listdir(daemon.root / "volumes") == []


def test_a_volume_on_another_disk(daemon: Daemon, work: Path) -> None:
    """An administrator's link is a volume; removing it keeps the files there."""
    target = work / "target"
    target.mkdir()
    (target / "file").touch()
    (daemon.root / "volumes/link").symlink_to(target)
    assert names(daemon) == ["link"]
    daemon.ctl("volume", "rm", "link").ok()
    assert names(daemon) == []
    assert (target / "file").exists()


def test_volumes_of_corrupt_containers_are_kept(daemon: Daemon, shell_root: str) -> None:
    mounting(daemon, shell_root, "data")
    one = daemon.get("c1")["id"]
    daemon.stop()
    (daemon.root / "containers" / one / "container.state").write_text("{")
    daemon.start()
    for words in (("rm", "data"), ("prune", "--force")):
        result = daemon.ctl("volume", *words)
        assert result.status == 1
        assert "corrupt" in result.err
    assert (daemon.root / "volumes/data").is_dir()
    daemon.ctl("rm", "-f", one).ok()
    daemon.ctl("volume", "rm", "data").ok()


def test_the_next_daemon_finishes_a_removal(daemon: Daemon) -> None:
    daemon.stop()
    left = daemon.root / "volumes/.removing-0123456789abcdef"
    left.mkdir()
    (left / "file").touch()
    (daemon.root / "volumes/.record-gone").write_text("{}")
    (daemon.root / "volumes/..record-gone.7").write_text("{")
    daemon.start()
    assert os.listdir(daemon.root / "volumes") == []
    assert names(daemon) == []


# --- labels and filters ---


def test_labels(daemon: Daemon) -> None:
    daemon.ctl("volume", "create", "--label", "tier=test", "--label=plain", "one").ok()
    daemon.ctl("volume", "create", "--label=tier=prod", "two").ok()
    daemon.ctl("volume", "create", "three").ok()
    assert names(daemon, "label=tier") == ["one", "two"]
    assert names(daemon, "label=tier=prod", "label=plain") == ["one", "two"]
    assert names(daemon, "label=tier=test", "name=two") == []
    form = "{{.Name}} {{.Labels}} {{.Labels.tier}}"
    shown = daemon.ctl("volume", "ls", "--filter=name=one", "--format", form).ok().out
    assert shown == "one tier=test,plain= test\n"
    # Those of an existing volume stay.
    daemon.ctl("volume", "create", "--label=new", "one").ok()
    assert names(daemon, "label=new") == []
    daemon("GET", "/v1/volumes?filters=%7B%22colour%22%3A%5B%22x%22%5D%7D").failed(400, "colour")
    daemon("POST", "/v1/volumes", {"name": "x", "labels": {"": "a"}}).failed(400, "labels")
    pruned = daemon.ctl("volume", "prune", "-f", "--all", "--filter=label=tier=test").ok().out
    assert pruned.splitlines()[0] == "one"
    assert names(daemon) == ["three", "two"]
    daemon("POST", "/v1/volumes/prune", {"filters": {"name": ["x"]}}).failed(400, "filters.name")
    daemon("POST", "/v1/volumes/prune", {"filters": {"label": "x"}}).failed(400, "filters.label")


# --- anonymous volumes ---


def spec(work: Path, *volumes: dict[str, Any], **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a request for a container of an image that declares ``/data`` as a volume."""
    image = busybox(work, "declaring", Volumes={"/data": {}})
    return {"image": image, "command": STAYS, "volumes": list(volumes), **more}


def anonymous(daemon: Daemon) -> dict[str, list[str]]:
    """Return the anonymous volumes, and the containers that use each."""
    return {one["name"]: one["containers"] for one in daemon("GET", "/v1/volumes").ok()}


def test_an_image_declares_a_volume(daemon: Daemon, work: Path) -> None:
    one = daemon.run("c1", **spec(work, {"target": "/other", "read_only": True}))
    other, data = daemon.get("c1")["spec"]["volumes"]
    assert (other["target"], data["target"]) == ("/other", "/data")
    assert anonymous(daemon) == {data["name"]: ["c1"], other["name"]: ["c1"]}
    assert is_id(data["name"])
    table = daemon.ctl("volume", "ls").ok().out.splitlines()
    assert table[0].split() == ["VOLUME", "NAME", "TYPE", "CONTAINERS"]
    assert [data["name"], "anonymous", "c1"] in [line.split() for line in table]
    # It has the image's files, with their owner and mode.
    place = daemon.root / "volumes" / data["name"]
    assert (place / "seed").read_text() == "from the image\n"
    assert (place.stat().st_uid, place.stat().st_gid, place.stat().st_mode & 0o777) == (
        33,
        34,
        0o750,
    )
    script = "echo own >/data/own && rm /data/seed && ! touch /other/x"
    daemon.ctl("exec", "c1", "/bin/sh", "-c", script).ok()
    # Files stay over restarts, also in a new pod, and are copied only once.
    daemon.verb(one, "stop").ok()
    daemon.pods("stop", "--force", "--wait", daemon.get("c1")["pod"])
    daemon.verb(one, "start").ok()
    assert daemon.ctl("exec", "c1", "/bin/sh", "-c", "ls /data").ok().out == "own\n"
    assert daemon.ctl("volume", "rm", data["name"]).status == 1
    daemon.remove("c1")
    assert anonymous(daemon) == {data["name"]: [], other["name"]: []}
    assert names(daemon, "dangling=true") == sorted([data["name"], other["name"]])


def test_removal_with_the_container(daemon: Daemon, work: Path) -> None:
    daemon.create("c1", **spec(work, {"name": "named", "target": "/named"}))
    daemon.create("c2", **spec(work))
    (own,) = daemon.get("c2")["spec"]["volumes"]
    # Named by its user, it stays, although it is an anonymous one.
    daemon.create("c3", **spec(work, {"name": own["name"], "target": "/data"}))
    daemon.ctl("rm", "-v", "c3").ok()
    assert own["name"] in names(daemon)
    daemon.ctl("rm", "--volumes", "--force", "c1", "c2").ok()
    assert names(daemon) == ["named"]
    command = ["/bin/true"]
    daemon.run(
        "c4",
        **{**spec(work, {"name": "named", "target": "/n"}), "command": command},
        auto_remove=True,
    )
    daemon.wait_for("c4", "gone")
    assert names(daemon) == ["named"]
    # Without -v they stay, until they are pruned.
    daemon.create("c5", **spec(work))
    daemon.ctl("rm", "c5").ok()
    assert len(names(daemon)) == 2
    daemon.ctl("volume", "prune", "-f").ok()
    assert names(daemon) == ["named"]


def test_volumes_from(daemon: Daemon, work: Path) -> None:
    daemon.run("c1", **spec(work, {"source": "/etc", "target": "/host"}))
    (host, data) = daemon.get("c1")["spec"]["volumes"]
    image = spec(work)["image"]
    words = (
        "run",
        "-d",
        "--name=c2",
        "--network=none",
        "--volumes-from=c1:ro",
        image,
        "/bin/sleep",
        "100",
    )
    daemon.ctl(*words).ok()
    assert anonymous(daemon) == {data["name"]: ["c1", "c2"]}
    script = "ls /data /host/passwd; ! touch /data/x"
    assert (
        daemon.ctl("exec", "c2", "/bin/sh", "-c", script).ok().out
        == "/host/passwd\n\n/data:\nseed\n"
    )
    # The last of them removes it.
    daemon.ctl("rm", "-fv", "c1").ok()
    assert anonymous(daemon) == {data["name"]: ["c2"]}
    daemon.ctl("rm", "-fv", "c2").ok()
    assert names(daemon) == []
    body = {"image": image, "command": STAYS, "volumes_from": [{"container": "nobody"}]}
    daemon("POST", "/v1/containers", body).failed(404, "nobody")
    assert names(daemon) == []
    assert host["source"] == "/etc"


def test_a_creation_that_fails_leaves_no_volume(daemon: Daemon, work: Path) -> None:
    given = spec(work, {"target": "/x"}, user="nobody-there")
    assert daemon("POST", "/v1/containers", given).status >= 400
    assert names(daemon) == []
    assert os.listdir(daemon.root / "volumes") == []


@pytest.mark.parametrize("point", ["create.after-intent", "create.after-bundle"])
def test_a_daemon_that_is_killed_during_a_creation(daemon: Daemon, work: Path, point: str) -> None:
    given = spec(work, {"name": "named", "target": "/named"})
    daemon.stop()
    daemon.start(fault=f"{point}:kill")
    with pytest.raises((OSError, HTTPException)):
        daemon("POST", "/v1/containers", given)
    daemon.died()
    daemon.start()
    assert set(names(daemon)) <= {"named"}
    assert daemon.list() == []


def test_a_daemon_that_is_killed_during_a_removal(daemon: Daemon, work: Path) -> None:
    """The next one checks which volumes other containers use before it removes any."""
    daemon.create("c1", **spec(work, {"target": "/own"}))
    sharing = [{"container": "c1"}]
    for name in ("c2", "c3", "c4"):
        daemon.create(name, **{**spec(work), "volumes_from": sharing})
        daemon.ctl("rm", name).ok() if name == "c4" else None
    _, data = daemon.get("c1")["spec"]["volumes"]
    daemon.stop()
    daemon.start(fault="remove.after-pod:kill")
    with pytest.raises((OSError, HTTPException)):
        daemon("DELETE", "/v1/containers/c1?volumes=1")
    daemon.died()
    daemon.start()
    assert daemon.status("c1") == "gone"
    assert anonymous(daemon)[data["name"]] == ["c2", "c3"]
    daemon.ctl("rm", "-v", "c2", "c3").ok()
    assert names(daemon) == []


# --- the image's files ---


def test_an_empty_named_volume_gets_the_image_s_files_once(daemon: Daemon, work: Path) -> None:
    image = busybox(work)
    words = ("run", "--rm", "--network=none", "-v", "v:/data", image, "/bin/sh", "-c")
    assert daemon.ctl(*words, "cat /data/seed; rm /data/seed; echo 1 >/data/own").ok().out
    assert daemon.ctl(*words, "ls /data").ok().out == "own\n"
    # Through a link of the image, which leads to /data in it.
    link = ("run", "--rm", "--network=none", "-v", "w:/link", image, "/bin/sh", "-c", "ls /data/")
    assert daemon.ctl(*link).ok().out == "seed\n"
    for mode in (("-v", "x:/data:nocopy"), ("--mount", "src=x,dst=/data,volume-nocopy")):
        plain = ("run", "--rm", "--network=none", *mode, image, "/bin/sh", "-c", "ls /data")
        assert daemon.ctl(*plain).ok().out == ""
    assert (daemon.root / "volumes/x").stat().st_uid == 0


def test_a_killed_copy_is_repeated(daemon: Daemon, work: Path) -> None:
    image = busybox(work)
    daemon.stop()
    daemon.start(fault="volume.before-complete:kill")
    given = {"image": image, "command": STAYS, "volumes": [{"name": "v", "target": "/data"}]}
    assert daemon("POST", "/v1/containers", {**given, "network": "none"}).status >= 400
    assert os.listdir(daemon.root / "volumes/v") == []
    daemon.stop()
    daemon.start()
    assert sorted(os.listdir(daemon.root / "volumes")) == [".record-v", "v"]
    daemon.create("c1", **given)
    assert os.listdir(daemon.root / "volumes/v") == ["seed"]


def test_a_link_of_the_image_to_the_host(daemon: Daemon, work: Path) -> None:
    outside = work / "outside"
    outside.mkdir()
    (outside / "secret").touch()
    files = {
        "evil": member(tarfile.SYMTYPE, linkname=str(outside)),
        "up": member(tarfile.SYMTYPE, linkname="../" * 20 + str(outside)),
    }
    make_layout(work / "evil", files=files, config={"Volumes": {"/evil": {}, "/up": {}}})
    image = f"oci:{work}/evil:latest"
    created = daemon(
        "POST", "/v1/containers", {"image": image, "command": STAYS, "network": "none"}
    )
    daemon.pods.look()
    assert created.status in (201, 500), created
    for volume in names(daemon):
        assert os.listdir(daemon.root / "volumes" / volume) == []
    assert os.listdir(outside) == ["secret"]


def test_an_image_with_volumes_that_cannot_be_mounted(daemon: Daemon, work: Path) -> None:
    make_layout(work / "bad", config={"Volumes": {"/a\0b": {}}})
    body = {"image": f"oci:{work}/bad:latest", "command": STAYS}
    daemon("POST", "/v1/containers", body).failed(500, "image", "/a", "NUL")
    many: dict[str, object] = {f"/v{number}": {} for number in range(1001)}
    make_layout(work / "many", config={"Volumes": many})
    body = {"image": f"oci:{work}/many:latest", "command": STAYS}
    daemon("POST", "/v1/containers", body).failed(500, "declares 1001 volumes")
    assert os.listdir(daemon.root / "volumes") == []


# --- binds ---


def test_mounts_of_the_host_made_later(daemon: Daemon, shell_root: str, work: Path) -> None:
    """With rslave they appear in the container, by default they do not."""
    shared = work / "shared"
    (shared / "below").mkdir(parents=True)
    with mounted_tmpfs(shared):
        subprocess.run(["mount", "--make-shared", str(shared)], check=True)
        (shared / "below").mkdir()
        words = ("run", "-d", "--network=none", f"--rootfs={shell_root}")
        mounts = ("-v", f"{shared}:/slave:rslave", "-v", f"{shared}:/private")
        daemon.ctl(*words, "--name=c1", *mounts, *STAYS).ok()
        with mounted_tmpfs(shared / "below"):
            (shared / "below/file").touch()
            script = "ls /slave/below; ls /private/below"
            assert daemon.ctl("exec", "c1", "/bin/sh", "-c", script).ok().out == "file\n"
        daemon.remove("c1")


@contextmanager
def mounted_tmpfs(place: Path) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)
