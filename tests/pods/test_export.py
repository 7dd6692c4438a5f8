"""What an app has left as an image, which can be run again."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.support.ocipod import Ocipod
from tests.support.pod_images import busybox, lines, shell

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
    "echo changed > /etc/hostname",
)
LOOK = (
    "cd /",
    "stat -c '%n %a %u %g %h %F' /data/new /home/*",
    "ls -a /data /home",
    "cat /home/link /etc/hostname /data/new",
)


@pytest.mark.parametrize("how", ["layer", "squash", "copies", "private users"])
def test_round_trip(ocipod: Ocipod, work: Path, how: str) -> None:
    options = {"copies": ["--no-overlay"], "private users": ["--private-users"]}.get(how, [])
    words = ("run", "--net=none", *options, busybox(work), "--name=a")
    ocipod(*words, *shell(*CHANGE)).ok()
    (uuid,) = ocipod.pods()
    archive = work / "new.tar"
    squash = ["--squash"] if how == "squash" else []
    ocipod("export", *squash, uuid, str(archive)).silent()
    again = ("run", "--net=none", f"oci-archive:{archive}", "--name=a", *shell(*LOOK))
    found = lines(ocipod(*again).ok(), "a")
    assert found == [
        "/data/new 4711 5 6 1 regular file",
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
    assert len(manifest["layers"]) == (3 if how in ("layer", "private users") else 1)


def test_refused(ocipod: Ocipod, work: Path) -> None:
    image = busybox(work)
    words = ("run", "--detach", "--net=none", image, "--name=a", *shell("exec sleep 60"))
    uuid = ocipod(*words, "---", image, "--name=b", *shell("exec sleep 60")).ok().out.strip()
    target = work / "new.tar"
    ocipod("export", uuid, str(target)).failed("--app names one: a, b")
    ocipod("export", "--app=a", uuid, str(target)).failed("is running")
    ocipod("stop", "--force", uuid).ok()
    ocipod.wait_for(uuid, "exited")
    ocipod("export", "--app=c", uuid, str(target)).failed('no app "c"')
    assert not target.exists()
    target.write_text("mine")
    ocipod("export", "--app=a", uuid, str(target)).failed("exists")
    assert target.read_text() == "mine"
    ocipod("export", "--app=a", "--overwrite", uuid, str(target)).silent()
    assert sorted(path.name for path in work.iterdir()) == ["busybox", "data", "new.tar"]
