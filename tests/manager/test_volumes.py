"""Named volumes: made by containers or ``ocictl volume``, listed, and removed when unused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.daemon import STAYS, Daemon


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
    shown = json.loads(daemon.ctl("volume", "inspect", "data").ok().out)
    assert [(one["Name"], one["Mountpoint"]) for one in shown] == [
        ("data", str(daemon.root / "volumes/data"))
    ]
    assert daemon.ctl("volume", "rm", "data").ok().out == "data\n"
    assert os.listdir(daemon.root / "volumes") == []


def test_create(daemon: Daemon) -> None:
    assert daemon.ctl("volume", "create", "one").ok().out == "one\n"
    assert daemon.ctl("volume", "create", "one").ok().out == "one\n"
    generated = daemon.ctl("volume", "create").ok().out.strip()
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
    assert result.err == 'ocictl: remove volume "data": in use by c1 (remove them first)\n'
    pruned = daemon.ctl("volume", "prune", "--force").ok().out
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
    """An administrator's link is a volume; removing it leaves the files there."""
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
    daemon.start()
    assert not left.exists()
    assert names(daemon) == []
