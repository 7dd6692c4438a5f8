"""Trees deeper than Python's recursion limit, with paths longer than PATH_MAX."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ociruntime.base.deep_tree import TreeCursor, disk_usage, open_regular, walk
from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.model.image_limits import Budget, Limits
from ociruntime.images.tar.layer_writer import LayerTar, of_directory
from ociruntime.pods.bundle.copy_tree import copy_tree
from ociruntime.pods.store import phases
from ociruntime.pods.store.lock import open_directory
from ociruntime.pods.store.phases import make_pod
from ociruntime.pods.store.pod import PHASES, Pod
from ociruntime.pods.store.remove_tree import remove_tree
from tests.support.descriptors import open_descriptors

DEPTH = 1200
DEPTH_OF_NAMES = 400  # a tar's reader takes names of 4095 bytes
NAME = "directory"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory whose trees may be too deep for other ways to remove them."""
    (tmp_path / "place").mkdir()
    yield tmp_path / "place"
    fd = open_directory(str(tmp_path))
    remove_tree(fd, "place")
    os.close(fd)


def fill(path: str, depth: int = DEPTH) -> None:
    """Create nested directories, with the same file at the top and at the bottom."""
    Path(path, "top").write_text("text")
    os.chmod(f"{path}/top", 0o640)
    with TreeCursor(path) as deep:
        for _ in range(depth):
            os.mkdir(NAME, 0o700, dir_fd=deep.fd)
            deep.down(NAME)
        os.symlink("nowhere", "link", dir_fd=deep.fd)
        os.link(f"{path}/top", "bottom", dst_dir_fd=deep.fd)
        for _ in range(depth):
            deep.up()
            os.utime(NAME, ns=(0, len(deep.names) * 10**9), dir_fd=deep.fd)


def layer(path: Path, **limits: int) -> bytes:
    """Return a layer of the directory, without limits besides those given."""
    budget = Budget.at("/", replace(Limits(depth=1 << 30), **limits))
    stream = LayerTar(of_directory(str(path), budget, upper=True))
    found = b""
    while data := stream.read(1 << 16):
        found += data
    return found


def members_of(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(layer(path))) as archive:
        return {member.name: member for member in archive.getmembers()}


def test_a_copy(place: Path) -> None:
    source, target = place / "source", place / "target"
    source.mkdir()
    fill(str(source))
    descriptors = open_descriptors()
    copy_tree(str(source), str(target))
    statuses = {(one.name, one.inside.count("/")): one.status for one in walk(str(target))}
    assert len(statuses) == DEPTH + 3
    top, bottom = statuses["top", 0], statuses["bottom", DEPTH]
    assert (top.st_mode & 0o777, top.st_nlink, top.st_ino) == (0o640, 2, bottom.st_ino)
    assert [statuses[NAME, n].st_mtime for n in range(DEPTH)] == list(range(DEPTH))
    assert open_descriptors() == descriptors


def test_a_layer(place: Path) -> None:
    fill(str(place), DEPTH_OF_NAMES)
    by_name = members_of(place)
    assert len(by_name) == DEPTH_OF_NAMES + 4
    at_bottom = "/".join([NAME] * DEPTH_OF_NAMES)
    assert by_name[f"{at_bottom}/link"].issym()
    # The first that is met has the contents.
    assert by_name[f"{at_bottom}/bottom"].isreg()
    assert by_name["top"].linkname == f"{at_bottom}/bottom"


def test_a_layer_of_a_tree_that_cannot_be_unpacked(place: Path) -> None:
    """Each name includes all names above: a deep tree would take the square of its size."""
    fill(str(place))
    with pytest.raises(ImageError, match=r'add "directory/directory.*4095 bytes'):
        layer(place)


def test_a_layer_of_a_sparse_file(place: Path) -> None:
    """Its hole would be written as zeros for hours."""
    (place / "small").write_bytes(b"x" * 1000)
    layer(place, bytes=1000)
    with (place / "sparse").open("wb") as file:
        file.truncate(4 << 40)
    with pytest.raises(ImageError, match=r'more than 1000000 bytes of files \(limited by "bytes"'):
        layer(place, bytes=1_000_000)


def test_attributes(place: Path) -> None:
    """Names that are not UTF-8 do not fit into a tar; others are the host's or overlayfs'."""
    (place / "file").touch()
    os.setxattr(place / "file", b"user.\xff", b"hidden")
    os.setxattr(place / "file", "trusted.host", b"hidden")
    os.setxattr(place / "file", "trusted.overlay.origin", b"hidden")
    os.setxattr(place / "file", "user.plain", b"shown")
    assert list(members_of(place)["file"].pax_headers) == ["SCHILY.xattr.user.plain"]


def test_what_an_overlay_has_removed(place: Path) -> None:
    (place / "new").mkdir(mode=0o751)
    os.mknod(place / "new/gone", 0o600 | stat.S_IFCHR, 0)
    os.setxattr(place / "new", "trusted.overlay.opaque", b"y")
    place.chmod(0o750)
    members = members_of(place)
    assert list(members) == [".", "new", "new/.wh..wh..opq", "new/.wh.gone"]
    assert (members["."].mode, members["new"].mode) == (0o750, 0o751)


def test_a_file_that_would_remove_another(place: Path) -> None:
    """A container's program may choose such a name: unpacked, it would remove "passwd"."""
    (place / ".wh.passwd").touch()
    with pytest.raises(ImageError, match=r'"\.wh\.passwd"'):
        layer(place)


def test_a_directory_of_more_files_than_a_layer_may_have(place: Path) -> None:
    """They are counted while they are listed, not once all are in memory."""
    for number in range(20):
        (place / str(number)).touch()
    with pytest.raises(ImageError, match="more than 10 files"):
        layer(place, files=10)


def test_a_pod_that_cannot_be_made(place: Path) -> None:
    def fail(pod: Pod) -> None:
        fill(f"{pod.path()}/apps")
        raise OSError(28, "No space left on device")

    with pytest.raises(HostError, match=r"prepare pod .*: no space left on device"):
        make_pod(str(place), fail)
    assert phases.names(str(place), PHASES, []) == []


def test_a_directory_that_is_moved_while_it_is_read(place: Path) -> None:
    """Its ``..`` would lead out of the tree: one level too far for each move."""
    tree = place / "tree"
    for path in (tree / "deep/one", tree / "outside", place / "outside"):
        path.mkdir(parents=True)
        (path / "file").touch()
    found = []

    def read() -> None:
        for one in walk(str(tree)):
            found.append(one.inside)
            if one.inside == "deep/one/file":
                (tree / "deep/one").rename(tree / "one")

    with pytest.raises(OSError, match=r"moved.*'one'"):
        read()
    assert found == ["deep", "deep/one", "deep/one/file"]


@pytest.mark.parametrize("kind", ["pipe", "link", "file"])
def test_a_file_that_is_replaced_before_it_is_opened(place: Path, kind: str) -> None:
    (place / "file").write_text("text")
    status = (place / "file").lstat()
    os.close(open_regular(str(place / "file"), status))
    (place / "file").rename(place / "other")
    if kind == "pipe":
        os.mkfifo(place / "file")
    elif kind == "link":
        (place / "file").symlink_to("other")
    else:
        (place / "file").write_text("text")
    with pytest.raises(OSError, match="was replaced"):
        open_regular(str(place / "file"), status)


def test_disk_usage(place: Path) -> None:
    fill(str(place))
    deep = disk_usage(str(place))
    (place / "file").write_bytes(b"x" * 100_000)
    whole = disk_usage(str(place))
    assert whole - deep >= 100_000
    (place / "same").hardlink_to(place / "file")
    (place / "link").symlink_to("/")
    os.truncate(place / "file", 1 << 40)  # sparse
    assert whole <= disk_usage(str(place)) < whole + 100_000
    assert disk_usage(str(place / "nothing")) == 0


def test_a_device_in_the_place_of_a_file_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening a device can have effects, even if it is closed at once."""
    (tmp_path / "file").touch()
    status = (tmp_path / "file").stat()
    opened: list[int] = []
    real = os.open

    def recording(path: str, flags: int, *args: int, **named: int) -> int:
        if not flags & os.O_PATH:
            opened.append(flags)
        return real(path, flags, *args, **named)

    monkeypatch.setattr(os, "open", recording)
    for other in ("/dev/null", str(tmp_path)):
        with pytest.raises(OSError, match="replaced"):
            open_regular(other, status)
    assert opened == []
    os.close(open_regular(str(tmp_path / "file"), status))
    assert len(opened) == 1
