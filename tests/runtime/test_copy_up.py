"""The initial content of a tmpfs: ``tmpcopyup``, and its mode."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.support import isolation
from tests.support.bundle import Bundle
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer

LISTING = "cd /data && find . | sort | xargs stat -c '%n %F %a %u:%g %Y'"


@pytest.fixture
def tree(bundle: MakeBundle) -> Bundle:
    """A bundle whose /data contains a file of each type."""
    one = bundle()
    data = one.rootfs / "data"
    (data / "deep" / "er").mkdir(parents=True)
    (data / "deep/er/file").write_bytes(b"x" * 3_000_000)
    (data / "program").write_text("#!/bin/sh\n")
    os.chown(data / "program", 1000, 50)
    (data / "program").chmod(0o6755)
    (data / "link").symlink_to("../etc/passwd")
    os.chown(data / "link", 7, 8, follow_symlinks=False)
    os.mkfifo(data / "fifo", 0o604)
    os.mknod(data / "null", 0o20666, os.makedev(1, 3))
    os.utime(data / "deep", (1_000_000_000, 1_000_000_000))
    (data / "deep").chmod(0o1777)
    return one


@deviates(runc="1.1 fails on a FIFO")
def test_copy_is_the_same(container: MakeContainer, tree: Bundle) -> None:
    """CFG-MNT-tmpcopyup: types, modes, owners, times and content; the image is unchanged."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tree.rootfs / "data/socket"))
    os.utime(tree.rootfs / "data", (1_100_000_000, 1_100_000_000))
    tree.shell(LISTING)
    expected = container(tree).run().ok().out
    tree.mount("/data", "tmpfs", "tmpfs", "tmpcopyup")
    assert container(tree).run().ok().out == expected
    tree.shell("md5sum </data/deep/er/file; readlink /data/link; echo >/data/new; rm /data/program")
    seen = container(tree).run().ok().out.splitlines()
    tree.config["mounts"].pop()
    tree.shell("md5sum </data/deep/er/file; readlink /data/link")
    assert container(tree).run().ok().out.splitlines() == seen
    assert not (tree.rootfs / "data/new").exists()
    assert (tree.rootfs / "data/program").exists()


@deviates(runc="1.1 fails on a FIFO")
def test_read_only_copy(container: MakeContainer, tree: Bundle) -> None:
    tree.mount("/data", "tmpfs", "tmpfs", "ro", "tmpcopyup").shell("ls /data; touch /data/new")
    result = container(tree).run()
    assert result.out.split() == ["deep", "fifo", "link", "null", "program"]
    assert "Read-only file system" in result.err


def test_links_are_not_followed(container: MakeContainer, bundle: MakeBundle, work: Path) -> None:
    """Neither a link to the host's files nor one above the copied directory."""
    (work / "secret").write_text("of the host\n")
    one = bundle("cat", "/data/link/secret")
    (one.rootfs / "data").mkdir()
    (one.rootfs / "data/link").symlink_to(work)
    one.mount("/data", "tmpfs", "tmpfs", "tmpcopyup")
    assert "No such file" in container(one).run().err


@deviates(runc="copies those, too")
def test_other_mounts_are_left_out(container: MakeContainer, tree: Bundle, work: Path) -> None:
    """Files in another mount are not copied."""
    place = tree.rootfs / "data/deep/mounted"
    place.mkdir()
    isolation.mount("tmpfs", str(place), "tmpfs")
    tree.mount("/data", "tmpfs", "tmpfs", "tmpcopyup").args("ls", "/data/deep")
    try:
        assert container(tree).run().ok().out == "er\n"
    finally:
        isolation.unmount(str(place))


@deviates(runc="does not name the mount by its place")
def test_too_large(container: MakeContainer, tree: Bundle) -> None:
    tree.mount("/data", "tmpfs", "tmpfs", "tmpcopyup", "size=1m")
    container(tree).create().failed("mounts[6]: mount tmpfs on", "no space", "copying")


@deviates(runc="copies any depth")
def test_too_deep(container: MakeContainer, bundle: MakeBundle) -> None:
    """The executor's stack limits the depth."""
    one = bundle()
    (one.rootfs / "data" / "/".join("d" * 200)).mkdir(parents=True)
    one.mount("/data", "tmpfs", "tmpfs", "tmpcopyup")
    container(one).create().failed("mounts[6]", "too long")


@pytest.mark.parametrize(("place", "mode"), [("/scratch", "1777"), ("/root", "755")])
def test_mode_of_a_tmpfs(
    container: MakeContainer, bundle: MakeBundle, place: str, mode: str
) -> None:
    """The mode is that of the covered directory; without one, all users may write (A-57)."""
    one = bundle("stat", "-c", "%a", place).mount(place, "tmpfs", "tmpfs", "nosuid")
    assert container(one).run().ok().out == f"{mode}\n"
