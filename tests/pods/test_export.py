"""An app's changes exported as an image that can be run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import tarfile
from pathlib import Path
from typing import IO

import pytest

from tests.support import processes
from tests.support.ocipod import Ocipod
from tests.support.pod_images import MAKE_DEEP, busybox, lines, shell

CHANGE = (
    "echo new > /data/new",
    "chown 5:6 /data/new",
    "chmod 4711 /data/new",
    "rm /data/seed",
    "rm -r /home",
    "mkdir /home",
    "echo x > /home/x",
    "ln /home/x /home/y",
    "ln -s x /home/link",
    "mkfifo /home/pipe",
    "echo changed > /etc/group",
)
LOOK = (
    "cd /",
    "stat -c '%n %a %u %g %h %F' /data/new /home/*",
    "ls -a /data /home",
    "cat /home/link /etc/group /data/new",
)


PRIVATE = ("private users", "private and squashed")


def attributes(shift: int) -> dict[str, bytes]:
    """Return extended attributes with ids shifted by this number."""
    allowed = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0)
    if shift:
        allowed = struct.pack("<6I", 0x03000001, 1 << 13, 0, 0, 0, shift)
    no_one = 0xFFFFFFFF
    entries = [(1, 7, no_one), (2, 4, 7 + shift), (4, 5, no_one), (16, 5, no_one), (32, 1, no_one)]
    packed = b"".join(struct.pack("<HHI", *entry) for entry in entries)
    return {
        "user.any": b"\0\xff=\n",
        "security.capability": allowed,
        "system.posix_acl_access": struct.pack("<I", 2) + packed,
    }


def add_attributes(file: Path) -> int:
    """Add attributes like an app with the right programs; return the shift of its ids."""
    shift = file.stat().st_uid - 5
    for name, value in attributes(shift).items():
        os.setxattr(file, name, value)
    file.chmod(0o4711 | 0o050)
    return shift


@pytest.mark.parametrize("how", ["layer", "squash", "copies", *PRIVATE])
def test_round_trip(ocipod: Ocipod, work: Path, how: str) -> None:
    options = ["--private-users"] if how in PRIVATE else []
    options += ["--no-overlay"] if how == "copies" else []
    words = ("run", "--net=none", *options, busybox(work), "--name=a")
    ocipod(*words, *shell(*CHANGE)).ok()
    (uuid,) = ocipod.pods()
    home = ocipod.path(uuid) / "apps" / "a"
    shift = add_attributes(home / ("bundle/rootfs" if how == "copies" else "upper") / "data/new")
    archive = work / "new.tar"
    squash = ["--squash"] if "squash" in how else []
    ocipod("export", *squash, uuid, str(archive)).silent()
    again = ("run", "--net=none", f"oci-archive:{archive}", "--name=a", *shell(*LOOK))
    found = lines(ocipod(*again).ok(), "a")
    assert found == [
        "/data/new 4751 5 6 1 regular file",
        "/home/link 777 0 0 1 symbolic link",
        "/home/pipe 644 0 0 1 fifo",
        "/home/x 644 0 0 2 regular file",
        "/home/y 644 0 0 2 regular file",
        *("/data:", ".", "..", "new", "", "/home:", ".", "..", "link", "pipe", "x", "y"),
        *("x", "changed", "new"),
    ]
    with tarfile.open(archive) as tar:
        index = json.load(tar.extractfile("index.json"))  # type: ignore[arg-type]
        digest = index["manifests"][0]["digest"].replace(":", "/")
        manifest = json.load(tar.extractfile(f"blobs/{digest}"))  # type: ignore[arg-type]
    (tree,) = (ocipod.directory / "cas/tree").glob("*/rootfs/data/new")
    assert {name: os.getxattr(tree, name) for name in os.listxattr(tree)} == attributes(0)
    assert (shift > 0) == (how in PRIVATE)
    assert len(manifest["layers"]) == (3 if how in ("layer", "private users") else 1)


def test_refused(ocipod: Ocipod, work: Path) -> None:
    image = busybox(work)
    words = ("run", "--detach", "--net=none", image, "--name=a", *shell("exec sleep 60"))
    uuid = ocipod(*words, "---", image, "--name=b", *shell("exec sleep 60")).ok().out.strip()
    target = work / "new.tar"
    ocipod("export", uuid, str(target)).failed("--app: a, b")
    ocipod("export", "--app=a", uuid, str(target)).failed('is "running"')
    ocipod("stop", "--force", uuid).ok()
    ocipod.wait_for(uuid, "exited")
    ocipod("export", "--app=c", uuid, str(target)).failed('app "c"', "a, b")
    assert not target.exists()
    (ocipod.path(uuid) / "apps" / "b" / "image.json").unlink()
    ocipod("export", "--app=b", uuid, str(target)).failed('app "b": ')
    assert not target.exists()
    target.write_text("mine")
    ocipod("export", "--app=a", uuid, str(target)).failed("exists")
    assert target.read_text() == "mine"
    ocipod("export", "--app=a", "--overwrite", uuid, str(target)).silent()
    assert sorted(path.name for path in work.iterdir()) == ["busybox", "data", "new.tar"]


def test_a_deep_tree(ocipod: Ocipod, work: Path) -> None:
    """Export a tree deeper than Python recurses; its longest path is just below PATH_MAX."""
    levels = 1500
    down = f"i=0; while [ $((i+=1)) -le {levels} ]; do mkdir d; cd d; done; echo text >file"
    ocipod("run", "--net=none", busybox(work), "--name=a", *shell(down)).ok()
    (uuid,) = ocipod.pods()
    for squash in ([], ["--squash"]):
        ocipod("export", *squash, "--overwrite", uuid, str(work / "new.tar")).silent()
        assert "d/" * levels + "file" in layer_names(work / "new.tar")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("squash", [[], ["--squash"]])
def test_a_sparse_file(ocipod: Ocipod, work: Path, squash: list[str]) -> None:
    """Its hole would be written as zeros for hours, and block the pod's removal."""
    ocipod("run", "--net=none", busybox(work), "--name=a", *shell("truncate -s 4096G file")).ok()
    (uuid,) = ocipod.pods()
    target = work / "new.tar"
    limit = 'bytes of files (limited by "bytes" in limits.json)'
    ocipod("export", *squash, uuid, str(target)).failed('app "a"', "more than", limit)
    assert sorted(path.name for path in work.iterdir()) == ["busybox", "data"]


@pytest.mark.parametrize("squash", [[], ["--squash"]])
def test_paths_that_no_reader_takes(ocipod: Ocipod, work: Path, squash: list[str]) -> None:
    ocipod("run", "--net=none", busybox(work), "--name=a", *shell(*MAKE_DEEP)).ok()
    (uuid,) = ocipod.pods()
    target = work / "new.tar"
    ocipod("export", *squash, uuid, str(target)).failed("path is longer than 4095 bytes")
    assert sorted(path.name for path in work.iterdir()) == ["busybox", "data"]


def layer_names(path: Path) -> list[str]:
    """Return the names in the last layer of an image's archive."""
    with tarfile.open(path) as archive:

        def blob(digest: str) -> IO[bytes]:
            found = archive.extractfile(f"blobs/{digest.replace(':', '/')}")
            assert found is not None
            return found

        index = archive.extractfile("index.json")
        assert index is not None
        manifest = json.load(blob(json.load(index)["manifests"][0]["digest"]))
        with tarfile.open(fileobj=blob(manifest["layers"][-1]["digest"])) as layer:
            return layer.getnames()


@pytest.mark.parametrize("squash", [[], ["--squash"]])
def test_a_pod_stays_until_it_is_exported(ocipod: Ocipod, work: Path, squash: list[str]) -> None:
    """Neither gc nor rm removes it during the export."""
    ocipod("run", "--net=none", busybox(work), "--name=a", *shell("echo x >/new")).ok()
    (uuid,) = ocipod.pods()
    target = work / "new.tar"
    words = ("export", *squash, uuid, str(target))
    process = ocipod.popen(*words, fault="export.after-lock:stop", stderr=subprocess.PIPE)
    assert processes.until(lambda: processes.state(process.pid) == "T")
    ocipod("gc", "--grace-period=0s").ok()
    ocipod("rm", uuid).failed(f'pod {uuid}: its state is "exited"', "locked")
    assert ocipod.phase(uuid) == "run"
    process.send_signal(signal.SIGCONT)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0
    ocipod("gc", "--grace-period=0s").ok()
    assert ocipod.pods() == []
    again = ("run", "--net=none", f"oci-archive:{target}", "--name=a", *shell("cat /new"))
    assert lines(ocipod(*again).ok(), "a") == ["x"]


def test_a_pod_that_is_being_removed(ocipod: Ocipod, work: Path) -> None:
    ocipod("run", "--net=none", busybox(work), "--name=a", *shell("exit 0")).ok()
    (uuid,) = ocipod.pods()
    process = ocipod.popen("rm", uuid, fault="gc.sweep.after-lock:stop")
    assert processes.until(lambda: processes.state(process.pid) == "T")
    target = work / "new.tar"
    ocipod("export", uuid, str(target)).failed(f"pod {uuid}: ", "exited deleting")
    process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 0
    assert not target.exists()


def test_a_pod_whose_tree_is_gone(ocipod: Ocipod, work: Path) -> None:
    ocipod("run", "--net=none", busybox(work), "--name=a", *shell("exit 0")).ok()
    (uuid,) = ocipod.pods()
    shutil.rmtree(ocipod.directory / "cas" / "tree")
    target = work / "new.tar"
    message = 'app "a": no such file or directory'
    ocipod("export", "--squash", uuid, str(target)).failed(message)
    assert not target.exists()


def test_an_app_whose_files_are_gone(ocipod: Ocipod, work: Path) -> None:
    ocipod("run", "--net=none", busybox(work), "--name=a", *shell("exit 0")).ok()
    (uuid,) = ocipod.pods()
    words = ("export", uuid, str(work / "new.tar"))
    (ocipod.path(uuid) / "apps/a/upper").rename(work / "upper")
    ocipod(*words).failed(f'app "a" of pod {uuid}: read "apps/a/upper": no such file or directory')
    shutil.rmtree(ocipod.directory / "cas" / "blobs" / "sha256")
    ocipod(*words).failed("image", "--squash")
    assert not (work / "new.tar").exists()
