"""``ocictl cp``, ``export`` and ``diff``."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from ociruntime.manager.client.copy import _extract
from tests.support.daemon import Daemon
from tests.support.runtime import Result

SCRIPT = "mkdir -p /d/e; echo one >/d/a; ln -s a /d/l; chmod 4755 /d/a; echo x >/d/e/b; "


@pytest.fixture
def daemon(shared_daemon: Daemon) -> Daemon:
    return shared_daemon


@pytest.fixture(params=["running", "stopped"])
def container(request: pytest.FixtureRequest, daemon: Daemon, shell_root: str) -> str:
    """A container "c1" with files below /d, running or stopped."""
    ends = "exec sleep 100" if request.param == "running" else "exit 0"
    command = ["/bin/busybox", "sh", "-c", busybox(SCRIPT) + f"echo done >/done; {busybox(ends)}"]
    daemon.run("c1", rootfs=shell_root, command=command, network="none")
    if request.param == "stopped":
        daemon.wait_for("c1", "stopped")
    else:
        wait = "until [ -e /done ]; do /bin/busybox usleep 10000; done"
        daemon.ctl("exec", "c1", "/bin/sh", "-c", wait).ok()
    return "c1"


def busybox(script: str) -> str:
    """Add the applets of busybox that the shell's root lacks."""
    for word in ("mkdir", "ln", "chmod"):
        script = script.replace(f"{word} ", f"/bin/busybox {word} ")
    return script


def cp(daemon: Daemon, *words: str | Path) -> Result:
    return daemon.ctl("cp", *map(str, words))


def test_a_file_to_the_host(daemon: Daemon, container: str, work: Path) -> None:
    here = work / "here"
    here.mkdir()
    cp(daemon, "c1:/d/a", here).ok()
    assert (here / "a").read_text() == "one\n"
    assert (here / "a").stat().st_mode & 0o7777 == 0o755, "no setuid programs of others"
    cp(daemon, "c1:/d/a", here / "new").ok()
    assert (here / "new").read_text() == "one\n"
    cp(daemon, "-a", "c1:/d/a", here / "new").ok()
    assert (here / "new").stat().st_mode & 0o7777 == 0o4755
    cp(daemon, "c1:/d/l", here).ok()
    assert os.readlink(here / "l") == "a"
    cp(daemon, "-L", "c1:/d/l", here / "followed").ok()
    assert (here / "followed").read_text() == "one\n"


def test_a_directory_to_the_host(daemon: Daemon, container: str, work: Path) -> None:
    here = work / "here"
    here.mkdir()
    cp(daemon, "c1:/d", here).ok()
    assert sorted(os.listdir(here / "d")) == ["a", "e", "l"]
    cp(daemon, "c1:/d", here / "new").ok()
    assert sorted(os.listdir(here / "new")) == ["a", "e", "l"]
    cp(daemon, "c1:/d/.", here).ok()
    assert sorted(os.listdir(here)) == ["a", "d", "e", "l", "new"]
    assert (here / "e/b").read_text() == "x\n"
    result = cp(daemon, "c1:/d", here / "a")
    assert (result.status, "to the file" in result.err) == (1, True)


def test_a_link_in_the_container_chooses_no_name_here(
    daemon: Daemon, container: str, work: Path
) -> None:
    here = work / "here"
    here.mkdir()
    (here / "a").write_text("kept")
    cp(daemon, "-L", "c1:/d/l", here).ok()
    assert (here / "a").read_text() == "kept"
    assert (here / "l").read_text() == "one\n"
    assert cp(daemon, "c1:/d/e/b/.", here).status == 1


def test_an_existing_directory_keeps_its_mode(daemon: Daemon, container: str, work: Path) -> None:
    here = work / "here"
    (here / "e").mkdir(parents=True)
    here.chmod(0o700)
    (here / "e").chmod(0o700)
    cp(daemon, "-a", "c1:/d/.", here).ok()
    assert {path.stat().st_mode & 0o777 for path in (here, here / "e")} == {0o700}
    assert (here / "e/b").read_text() == "x\n"


def test_to_the_container_and_back(daemon: Daemon, container: str, work: Path) -> None:
    site = work / "site"
    (site / "sub").mkdir(parents=True)
    (site / "index").write_text("hello")
    os.chown(site / "index", 7, 7)
    cp(daemon, site, "c1:/d").ok()
    cp(daemon, site, "c1:/new").ok()
    cp(daemon, f"{site}/.", "c1:/d").ok()
    cp(daemon, site / "index", "c1:/d/renamed").ok()
    for place in ("/d/site/index", "/new/index", "/d/index", "/d/renamed"):
        cp(daemon, f"c1:{place}", work / "back").ok()
        assert (work / "back").read_text() == "hello", place
    out = tar_of(daemon, "c1:/new", "-")
    assert out["new/index"].uid == 0
    cp(daemon, "-a", site, "c1:/owned").ok()
    assert tar_of(daemon, "c1:/owned/.", "-")["index"].uid == 7


def tar_of(daemon: Daemon, *words: str) -> dict[str, tarfile.TarInfo]:
    done = subprocess.run(
        [*daemon.client, "cp", *words], check=True, capture_output=True, timeout=60
    )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        return {member.name: member for member in archive}


def test_streams(daemon: Daemon, container: str, work: Path) -> None:
    assert set(tar_of(daemon, "c1:/d", "-")) == {"d", "d/a", "d/e", "d/e/b", "d/l"}
    assert set(tar_of(daemon, "c1:/d/a", "-")) == {"a"}
    (work / "file").write_text("streamed")
    packed = subprocess.run(
        ["tar", "-C", str(work), "-c", "file"], check=True, capture_output=True
    ).stdout
    subprocess.run(
        [*daemon.client, "cp", "-", "c1:/d"], input=packed, check=True, capture_output=True
    )
    cp(daemon, "c1:/d/file", work / "back").ok()
    assert (work / "back").read_text() == "streamed"


def test_refusals(daemon: Daemon, container: str, work: Path) -> None:
    (work / "dir").mkdir()
    (work / "file").touch()
    for words, message in (
        (("c1:/nope", "."), 'inspect "/nope": no such file or directory'),
        (("c1:/d/a", f"{work}/nope/"), "not found"),
        (("c1:/d/a", f"{work}/no/pe"), "not found"),
        ((f"{work}/dir", "c1:/d/a"), "to the file"),
        ((f"{work}/file", "c1:/nope/"), "not found"),
        ((f"{work}/file", "c1:/no/pe"), "no such file or directory"),
        ((f"{work}/nope", "c1:/d"), "no such file or directory"),
        (("a", "b"), "CONTAINER:PATH"),
        (("c1:/a", "c1:/b"), "CONTAINER:PATH"),
        (("c1:", "b"), "has no path"),
        ((f"{work}/file", "other:/d"), '"other"'),
    ):
        result = cp(daemon, *words)
        assert result.status == 1, words
        assert message in result.err, words
        assert "Traceback" not in result.err


def test_export_and_diff(daemon: Daemon, container: str, work: Path) -> None:
    daemon.ctl("export", "-o", str(work / "all.tar"), "c1").ok()
    with tarfile.open(work / "all.tar") as archive:
        names = set(archive.getnames())
    assert {"d/a", "bin/busybox", "proc"} <= names
    assert not any(name.startswith(("proc/", "sys/", "dev/")) for name in names)
    lines = daemon.ctl("diff", "c1").ok().out.splitlines()
    assert {"A /d", "A /d/a", "A /done"} <= set(lines)


@pytest.mark.parametrize(
    "names", [("../x",), ("/x",), ("l", "l/x"), ("l", "l/a/x")], ids=["up", "root", "link", "below"]
)
def test_hostile_archives_stay_inside(work: Path, names: tuple[str, ...]) -> None:
    """The archives that ocid sends contain the container's files."""
    outside, top = work / "outside", work / "top"
    outside.mkdir()
    (outside / "a").mkdir()
    top.mkdir()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            if name == "l":
                member.type, member.linkname = tarfile.SYMTYPE, str(outside)
            archive.addfile(member)
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as archive, pytest.raises(OSError, match="archive"):
        _extract(archive, str(top), is_directory=True, archive=True)
    assert os.listdir(outside) == ["a"]
    assert os.listdir(outside / "a") == []
    assert sorted(os.listdir(work)) == ["outside", "top"]


@pytest.mark.parametrize("state", ["created", "stopped"])
def test_a_volume_of_a_container_that_does_not_run(
    daemon: Daemon, shell_root: str, work: Path, state: str
) -> None:
    host = {"source": "/etc", "target": "/host", "read_only": True}
    volumes = [{"name": "data", "target": "/d"}, host]
    command = ["/bin/sh", "-c", "echo own >/d/own"]
    daemon.create("c1", rootfs=shell_root, command=command, volumes=volumes)
    if state == "stopped":
        daemon.verb("c1", "start").ok()
        daemon.wait_for("c1", "stopped")
        cp(daemon, "c1:/d/own", work).ok()
        assert (work / "own").read_text() == "own\n"
    (work / "new").write_text("new")
    cp(daemon, work / "new", "c1:/d").ok()
    assert (daemon.root / "volumes/data/new").read_text() == "new"
    assert "read-only" in cp(daemon, work / "new", "c1:/host").err
    daemon.remove("c1")
    daemon.ctl("volume", "rm", "data").ok()
