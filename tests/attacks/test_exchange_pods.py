"""A running app exchanges files in its volume while ``ocipod`` reads or writes there.

Root in an app can write to a mounted volume of the host: it can replace a directory that a command
has just created with a symbolic link, or move a directory that is being read.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ociruntime.base.errors import RuntimeFailure
from ociruntime.images.model.image_limits import Budget, Limits
from ociruntime.images.tar.layer_writer import LayerTar, of_directory
from ociruntime.pods.bundle.copy_tree import copy_tree
from ociruntime.pods.cli.main import main
from ociruntime.pods.store.lock import open_directory
from ociruntime.pods.store.remove_tree import remove_tree
from tests.attacks.exchange import Met, until_met
from tests.support import images
from tests.support.ocipod import Ocipod
from tests.support.peers import judge_by
from tests.support.pod_images import busybox, shell

Tries = Callable[[int, int], int]
SECRET = "not for the container"

pytestmark = judge_by("ociruntime")

# Puts links where ``ocipod`` makes its files: one place for each of its new directories, or none.
REPLACE = """
import ctypes, os, random, sys
rename = ctypes.CDLL(None).renameat2
canary = os.fsencode(sys.argv[2])
os.chroot(sys.argv[1])  # as in a container: its links mean something else to it than to the host
os.chdir("/")
places = [b"", b"/rootfs", b"/rootfs/d", b"/blobs", b"/blobs/sha256", b"/rootfs/pipe%d"]
places += [b"/image-config.json", b"/index.json"]
number = 0
print(flush=True)
while True:
    for name in os.listdir(b"."):
        if not name.startswith(b".out."):
            continue
        place = random.choice(places)
        if b"%" in place:
            place = place % random.randrange(200)
        number += 1
        link = b"link%d" % number
        is_file = place.endswith(b".json") or b"pipe" in place
        os.symlink(canary + b"/file" * is_file, link)
        for _ in range(random.choice([0, 3000])):
            if place.endswith(b".json"):
                try:
                    os.rename(link, name + place)
                    break
                except OSError:
                    pass
            elif not rename(-100, link, -100, name + place, 2):
                break
            elif place and not os.path.lexists(name):
                break
        while os.path.lexists(name) and random.random() < 0.999:
            pass
"""

# Swaps pairs of names, and moves a directory up and down, all the time.
EXCHANGE = """
import ctypes, os, sys
rename = ctypes.CDLL(None).renameat2
os.chroot(sys.argv[1])
os.chdir("/")
print(flush=True)
while True:
    for a, b in ((b"d", b"link-d"), (b"f", b"link-f"), (b"g", b"pipe")):
        rename(-100, a, -100, b, 2)
    for a, b in ((b"deep/one", b"one"), (b"one", b"deep/one")):
        rename(-100, a, -100, b, 1)
"""

SWAP = """
import ctypes, os, sys
rename = ctypes.CDLL(None).renameat2
os.chroot(sys.argv[1])
os.chdir("/")
print(flush=True)
while True:
    rename(-100, b"d", -100, b"link", 2)
"""


@contextmanager
def attacker(program: str, *arguments: str | Path) -> Iterator[None]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
            assert process.poll() is None, "the attacker ended early"
        finally:
            process.kill()


@pytest.fixture
def outside(work: Path) -> Path:
    """A directory next to the container's volume, which must be neither changed nor read."""
    made = work / "outside"
    (made / "rootfs").mkdir(parents=True)
    made.chmod(0o711)
    for name in ("file", "f", "secret", "image-config.json"):
        (made / name).write_text(SECRET)
        (made / name).chmod(0o640)
    return made


def facts(place: Path) -> dict[str, object]:
    """Return all properties of the files below ``place`` that could change."""
    found: dict[str, object] = {}
    for path in (place, *place.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (status.st_mode, status.st_uid, status.st_mtime_ns, content)
    return found


@pytest.fixture
def store(work: Path) -> Iterator[list[str]]:
    """Return the arguments of a command on the image ``oci:WORK/image``, which is in the store."""
    pipes = {f"pipe{number}": images.member(b"6", mode=0o777) for number in range(200)}
    layer = images.pack({"d/": "", **pipes, "d/x": "x", "d/y": "y"})
    images.build([layer]).write_layout(work / "image")
    words = [f"--dir={work}/data", f"--local-config={work}/config", "--insecure-options=image"]
    assert main([*words, "fetch", f"oci:{work}/image"]) == 0
    yield words
    # An attacker's directories may be deeper than a test's own means reach.
    fd = open_directory(str(work))
    remove_tree(fd, "volume")
    os.close(fd)


@pytest.mark.parametrize("verb", ["render", "extract", "export"])
def test_links_where_ocipod_writes_an_image(
    store: list[str], outside: Path, work: Path, tries: Tries, verb: str
) -> None:
    volume = work / "volume"
    volume.mkdir()
    before = facts(outside)
    count = tries(100, 2000)
    met = Met(count)
    with attacker(REPLACE, volume, outside):
        for number in until_met(count, met):
            words = ["image", verb, f"oci:{work}/image", f"{volume}/out{number}"]
            words[3] = f"{volume}/out" if verb != "export" else words[3]
            met.note(main([*store, *words]) == 0)
            if verb != "export":
                parent = open_directory(str(volume))
                remove_tree(parent, "out")
                os.close(parent)
            assert facts(outside) == before
    met.check()


def make_tree(volume: Path, outside: Path) -> None:
    """Create a tree with pairs to exchange, in which ``outside`` is also a directory's name."""
    for name in ("d", "deep/one", "outside"):
        (volume / name).mkdir(parents=True)
        (volume / name / "f").write_text("inside")
    for name in ("f", "g", "deep/z"):
        (volume / name).write_text("inside")
    (volume / "link-d").symlink_to(outside)
    (volume / "link-f").symlink_to(outside / "secret")
    os.mkfifo(volume / "pipe")


def read_layer(volume: Path, work: Path) -> bytes:
    stream = LayerTar(of_directory(str(volume), Budget.at(str(work), Limits()), upper=True))
    found = b""
    while data := stream.read(1 << 16):
        found += data
    return found


def read_copy(volume: Path, work: Path) -> bytes:
    target = work / "copy"
    try:
        copy_tree(str(volume), str(target))
        files = [path for path in target.rglob("*") if path.is_file() and not path.is_symlink()]
        return b"".join(path.read_bytes() for path in files)
    finally:
        fd = open_directory(str(work))
        remove_tree(fd, "copy")
        os.close(fd)


@pytest.mark.parametrize("read", [read_layer, read_copy])
def test_a_tree_that_changes_while_it_is_read(
    outside: Path, work: Path, tries: Tries, read: Callable[[Path, Path], bytes]
) -> None:
    """``fetch dir:``, ``export`` and copies never contain files from outside the tree."""
    volume = work / "volume"
    make_tree(volume, outside)
    assert b"inside" in read(volume, work)
    count = tries(100, 2000)
    met = Met(count)
    with attacker(EXCHANGE, volume):
        for _ in until_met(count, met):
            found = b""
            for _ in range(20):  # most of them find something amiss, and say so
                try:
                    found = read(volume, work)
                except (RuntimeFailure, OSError):
                    continue
                break
            assert SECRET.encode() not in found
            met.note(bool(found))
    met.check()


@pytest.fixture
def pod(work: Path) -> Iterator[Ocipod]:
    """``ocipod``; its pods are stopped after the test."""
    one = Ocipod(work / "data")
    yield one
    one.finish()


def test_an_app_whose_mounts_are_in_a_volume_of_another_app(
    pod: Ocipod, outside: Path, work: Path, tries: Tries
) -> None:
    """``app add`` and ``app start`` create mount points where a running app swaps directories."""
    volume, image = work / "volume", busybox(work)
    (volume / "d/w").mkdir(parents=True)
    (volume / "link").symlink_to(outside)
    (work / "other").mkdir()
    pod("fetch", image).ok()
    uuid = pod("app", "sandbox", "--detach", "--net=none").ok().out.strip()
    mounts = [
        f"--mnt-volume=name=v,kind=host,source={volume},target=/v",
        f"--mnt-volume=name=w,kind=host,source={work}/other,target=/v/d/w/new",
    ]
    before = facts(outside)
    count = tries(40, 2000)
    met = Met(count)
    with attacker(SWAP, volume):
        for _ in until_met(count, met):
            added = pod("app", "add", uuid, image, "--name=b", *mounts, *shell("true"))
            started = not added.status and not pod("app", "start", uuid, "--app=b").status
            if not added.status:
                pod("app", "rm", uuid, "--app=b").ok()
            met.note(started)
            assert facts(outside) == before
    met.check()
