"""Volumes filled with an image's files: hostile images, hostile programs, and killed processes."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, ImageError
from ociruntime.base.fault_injection import MARKER
from ociruntime.pods.bundle import filled_volume
from ociruntime.pods.bundle.filled_volume import fill, settle

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An image's root filesystem."""
    top = tmp_path / "tree"
    data = top / "data"
    data.mkdir(parents=True)
    (data / "file").write_text("image")
    (data / "sub").mkdir(mode=0o700)
    (data / "sub/deep").write_text("deep")
    return top


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    place = tmp_path / "volumes" / "v"
    place.parent.mkdir(mode=0o750)
    place.mkdir(mode=0o755)
    return place


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A directory of the host that must not change."""
    place = tmp_path / "outside"
    place.mkdir(mode=0o700)
    (place / "secret").write_text("the host's")
    yield place
    assert os.listdir(place) == ["secret"]
    assert (place / "secret").read_text() == "the host's"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


def left(volume: Path) -> list[str]:
    """Return the files next to the volume."""
    return sorted(name for name in os.listdir(volume.parent) if name != volume.name)


def test_content_owners_modes_attributes_and_links(tree: Path, volume: Path) -> None:
    data = tree / "data"
    os.chown(data, 7, 8)
    data.chmod(0o1770)
    os.setxattr(data / "file", "user.x", b"1")
    os.chown(data / "file", 9, 10)
    (data / "file").chmod(0o4755)
    os.link(data / "file", data / "sub/hard")
    (data / "soft").symlink_to("/etc/passwd")
    os.lchown(data / "soft", 11, 12)
    fill(str(volume), str(tree), "/data")
    status = volume.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (7, 8, 0o1770)
    file = (volume / "file").stat()
    assert (file.st_uid, file.st_gid, stat.S_IMODE(file.st_mode)) == (9, 10, 0o4755)
    assert os.getxattr(volume / "file", "user.x") == b"1"
    assert os.path.samestat(file, (volume / "sub/hard").stat())
    assert os.readlink(volume / "soft") == "/etc/passwd"
    assert (volume / "soft").lstat().st_uid == 11
    assert (volume / "sub/deep").read_text() == "deep"
    assert left(volume) == []


def test_an_empty_directory_gives_its_owner_and_mode(tree: Path, volume: Path) -> None:
    (tree / "empty").mkdir()
    os.chown(tree / "empty", 999, 999)
    (tree / "empty").chmod(0o700)
    fill(str(volume), str(tree), "/empty")
    assert (volume.stat().st_uid, stat.S_IMODE(volume.stat().st_mode)) == (999, 0o700)


def test_only_an_empty_volume_is_filled(tree: Path, volume: Path) -> None:
    (volume / "own").write_text("kept")
    fill(str(volume), str(tree), "/data")
    assert os.listdir(volume) == ["own"]
    assert left(volume) == []


@pytest.mark.parametrize("path", ["/nope", "/data/file", "/data/file/x"])
def test_images_without_such_a_directory(tree: Path, volume: Path, path: str) -> None:
    fill(str(volume), str(tree), path)
    assert os.listdir(volume) == left(volume) == []


def test_links_of_the_image_lead_nowhere_outside(tree: Path, volume: Path, outside: Path) -> None:
    (tree / "absolute").symlink_to(outside)
    (tree / "up").symlink_to("../" * 20 + str(outside))
    (tree / "loop").symlink_to("loop")
    (tree / "data/link").symlink_to(outside)
    for path in ("/absolute", "/up", "/loop", "/up/..", f"/../../..{outside}"):
        fill(str(volume), str(tree), path)
        assert "secret" not in os.listdir(volume)
    (tree / "here").symlink_to("/data")
    fresh = volume.with_name("fresh")
    fresh.mkdir()
    fill(str(fresh), str(tree), "/here")
    assert (fresh / "link").is_symlink(), "a link was followed"
    assert sorted(os.listdir(fresh)) == ["file", "link", "sub"]


def test_fifos_sockets_and_devices_are_not_opened(tree: Path, volume: Path) -> None:
    os.mkfifo(tree / "data/fifo", 0o640)
    # Opening it would fail: there is no such device.
    os.mknod(tree / "data/device", stat.S_IFCHR | 0o600, os.makedev(250, 99))
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tree / "data/socket"))
    fill(str(volume), str(tree), "/data")
    assert stat.S_ISFIFO((volume / "fifo").lstat().st_mode)
    assert (volume / "device").lstat().st_rdev == os.makedev(250, 99)
    assert not (volume / "socket").exists()


def test_too_much_is_refused_and_leaves_nothing(tree: Path, volume: Path) -> None:
    def budget(status: os.stat_result) -> None:
        if stat.S_ISREG(status.st_mode):
            raise ImageError("too many files")

    with pytest.raises(ImageError):
        fill(str(volume), str(tree), "/data", None, budget)
    assert os.listdir(volume) == left(volume) == []


def test_a_link_or_a_directory_of_another_user(tree: Path, volume: Path, outside: Path) -> None:
    link = volume.with_name("link")
    link.symlink_to(outside)
    fill(str(link), str(tree), "/data")
    # Whoever owns the parent could exchange what is beside the volume.
    os.chown(volume.parent, 1000, 1000)
    fill(str(volume), str(tree), "/data")
    assert os.listdir(volume) == []
    with pytest.raises(HostError):
        fill("/nope/v", str(tree), "/data")


def test_files_of_a_program_are_not_replaced(
    tree: Path, volume: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container with the empty volume creates links in it while it is filled."""

    def meanwhile(point: str) -> None:
        if point == "volume.after-complete":
            (volume / "file").symlink_to(outside / "secret")
            (volume / "sub").symlink_to(outside)

    monkeypatch.setattr(filled_volume, "fault", meanwhile)
    fill(str(volume), str(tree), "/data")
    assert os.readlink(volume / "file") == f"{outside}/secret"
    assert os.readlink(volume / "sub") == str(outside)
    assert left(volume) == []


def killed(tree: Path, volume: Path, point: str) -> None:
    """Fill the volume in a process that is killed at ``point``."""

    def work() -> None:
        os.environ["OCIPOD_FAULT"] = f"{point}:kill"
        fill(str(volume), str(tree), "/data")

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.skipif(not os.path.exists(MARKER), reason="needs a build with fault injection")
@pytest.mark.parametrize("next_step", ["fill", "settle"])
@pytest.mark.parametrize("point", ["volume.before-complete", "volume.after-complete"])
def test_a_killed_copy(tree: Path, volume: Path, point: str, next_step: str) -> None:
    killed(tree, volume, point)
    assert os.listdir(volume) == [], "half of a copy"
    assert len(left(volume)) == 1
    if next_step == "settle":
        settle(str(volume.parent))
        complete = point == "volume.after-complete"
        assert sorted(os.listdir(volume)) == (["file", "sub"] if complete else [])
    else:
        (tree / "data/new").touch()
        fill(str(volume), str(tree), "/data")
        assert {"file", "sub"} <= set(os.listdir(volume))
    assert left(volume) == []


def test_a_copy_whose_volume_is_gone(volume: Path) -> None:
    for name in (".copying-v", ".filling-x", ".filling-v"):
        (volume.parent / name).mkdir()
        (volume.parent / name / "file").touch()
    settle(str(volume.parent))
    assert left(volume) == []
    assert os.listdir(volume) == ["file"]


def test_two_processes_fill_one_after_the_other(tree: Path, volume: Path) -> None:
    copying = volume.parent / ".copying-v"
    copying.mkdir()
    fd = os.open(copying, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)

    def work() -> None:
        os.close(fd)  # or it would hold the lock, too
        fill(str(volume), str(tree), "/data")

    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=work) for _ in range(3)]
    for process in processes:
        process.start()
    assert os.listdir(volume) == []
    os.close(fd)
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert sorted(os.listdir(volume)) == ["file", "sub"]
    assert left(volume) == []
