"""Trees: unpacked once, found damaged, unpacked again."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.model.image import Image
from ociruntime.images.store.store import Store
from ociruntime.images.unpack.tree_store import (
    CHANGED,
    NOT_RENDERED,
    WHOLE,
    TreeStore,
    hash_tree,
    tree_id,
)
from tests.support import images
from tests.unit.images.trees import contents

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files get their owners")

LAYERS = [images.pack({"a": "1", "d/": "", "d/b": "2"}), images.pack({"d/.wh.b": "", "c": "3"})]
ROOT = Path(__file__).resolve().parents[4]
RENDER = """
import sys
from ociruntime.images.store.store import Store
from ociruntime.images.unpack.tree_store import TreeStore
TreeStore(sys.argv[1]).render(Store(sys.argv[1]).find("x"))
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


@pytest.fixture
def trees(tmp_path: Path) -> TreeStore:
    return TreeStore(str(tmp_path))


def put(store: Store, built: images.BuiltImage, name: str = "x") -> Image:
    import io

    return images.import_image(
        store, built.manifest, lambda blob: io.BytesIO(built.blobs[blob.digest]), name
    )


@pytest.fixture
def image(store: Store) -> Image:
    return put(store, images.BuiltImage(LAYERS, compression=["gzip", "zstd"]))


def render_elsewhere(directory: Path, fault: str = "") -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", RENDER, str(directory)]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "OCIPOD_FAULT": fault})


def test_render(trees: TreeStore, image: Image) -> None:
    seen: list[str] = []
    tree = trees.render(image, lambda kind, done, total: seen.append(kind))
    assert tree == tree_id(image) == image.chain_id.replace(":", "-")
    assert contents(Path(trees.rootfs(tree))) == {"a": "1", "c": "3", "d": "/"}
    assert trees.verify(tree) == WHOLE
    (found,) = trees.trees()
    assert (found.id, found.rendered, found.size) == (tree, True, 2)
    assert trees.size(tree) == 2
    assert "unpacking layer 1 of 2" in seen
    assert stat.S_IMODE(os.stat(trees.path).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(trees.rootfs(tree)).st_mode) == 0o755


def test_rendered_once(trees: TreeStore, image: Image) -> None:
    tree = trees.render(image)
    marker = Path(trees.rootfs(tree), "marker")
    marker.touch()
    assert trees.render(image) == tree
    assert marker.exists()
    trees.render_again(image)
    assert not marker.exists()


def test_images_with_the_same_layers_share_a_tree(
    store: Store, trees: TreeStore, image: Image
) -> None:
    other = put(store, images.BuiltImage(LAYERS, {"Cmd": ["other"]}, ""), "y")
    assert other.id != image.id
    assert trees.render(other) == trees.render(image)
    assert len(trees.trees()) == 1


@pytest.mark.parametrize("change", ["byte", "mode", "owner", "new", "gone", "type", "xattr"])
def test_a_change_is_found(trees: TreeStore, image: Image, change: str) -> None:
    tree = trees.render(image)
    file = Path(trees.rootfs(tree), "a")
    facts = file.stat()
    if change == "byte":
        file.write_text("2")
        os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    elif change == "mode":
        file.chmod(0o4644)
    elif change == "owner":
        os.chown(file, 0, 5)
    elif change == "new":
        file.with_name("e").touch()
    elif change == "xattr":
        try:
            os.setxattr(file, "user.x", b"")
        except OSError as error:
            pytest.skip(f"no attributes here: {error}")
    else:
        file.unlink()
        if change == "type":
            file.symlink_to("1")
    assert trees.verify(tree) == CHANGED
    trees.render_again(image)
    assert trees.verify(tree) == WHOLE


def test_times_do_not_matter(trees: TreeStore, image: Image) -> None:
    tree = trees.render(image)
    os.utime(Path(trees.rootfs(tree), "a"), (0, 0))
    assert trees.verify(tree) == WHOLE


def test_fields_are_told_apart(tmp_path: Path) -> None:
    found = set()
    for number, (name, text) in enumerate([("a", "bc"), ("ab", "c"), ("a", "b"), ("a", "")]):
        tree = tmp_path / str(number)
        tree.mkdir()
        (tree / name).write_text(text)
        found.add(hash_tree(str(tree)).digest)
    assert len(found) == 4


def test_a_damaged_layer_leaves_nothing(store: Store, trees: TreeStore, image: Image) -> None:
    layer = Path(store.blobs.path_of(image.layers[1].digest))
    whole = layer.read_bytes()
    for damaged in (whole[:-20], b"x" * 512, LAYERS[0], b""):
        layer.write_bytes(damaged)
        with pytest.raises(ImageError):
            trees.render(image)
        assert os.listdir(trees.path) == os.listdir(trees.locks) == []
    layer.write_bytes(whole)
    assert trees.verify(trees.render(image)) == WHOLE


def test_killed_before_the_flag(tmp_path: Path, trees: TreeStore, image: Image) -> None:
    process = render_elsewhere(tmp_path, "treestore.before-rendered-flag:kill")
    assert process.wait() == -signal.SIGKILL
    tree = tree_id(image)
    assert os.path.exists(trees.rootfs(tree))
    assert trees.verify(tree) == NOT_RENDERED
    assert [(one.rendered, one.size) for one in trees.trees()] == [(False, 0)]
    assert trees.size(tree) == 0
    Path(trees.rootfs(tree), "leftover").touch()
    assert trees.render(image) == tree
    assert contents(Path(trees.rootfs(tree))) == {"a": "1", "c": "3", "d": "/"}


def test_two_at_once_render_once(tmp_path: Path, trees: TreeStore, image: Image) -> None:
    tree = tree_id(image)
    first = render_elsewhere(tmp_path, "treestore.before-rendered-flag:stop")
    os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WNOWAIT)
    assert not trees.is_rendered(tree)
    assert not trees.remove(tree, wait=False)
    second = render_elsewhere(tmp_path)
    marker = Path(trees.rootfs(tree), "marker")
    marker.touch()
    time.sleep(0.3)
    assert second.poll() is None, "it waits for the first one"
    first.send_signal(signal.SIGCONT)
    assert (first.wait(), second.wait()) == (0, 0)
    assert marker.exists()


def test_locks_without_a_tree_are_swept(trees: TreeStore, image: Image) -> None:
    tree = trees.render(image)
    assert trees.verify(f"sha256-{'0' * 64}") == NOT_RENDERED
    assert len(os.listdir(trees.locks)) == 2
    trees.sweep()
    assert os.listdir(trees.locks) == [f"tree-{tree}"]


def test_remove(trees: TreeStore, image: Image) -> None:
    tree = trees.render(image)
    assert trees.remove(tree)
    assert trees.trees() == []
    assert os.listdir(trees.locks) == []
    assert trees.remove(tree), "it may be gone already"
    assert trees.verify(tree) == NOT_RENDERED
    assert os.listdir(trees.path) == []


@pytest.mark.parametrize("tree", ["", "..", "sha256-1", f"sha256:{'0' * 64}", f"../{'0' * 64}"])
def test_what_is_no_tree(trees: TreeStore, tree: str) -> None:
    for call in (trees.rootfs, trees.remove, trees.verify):
        with pytest.raises(ImageError, match="invalid tree id"):
            call(tree)


def test_a_damaged_record_of_the_digest_is_a_change(trees: TreeStore, image: Image) -> None:
    tree = trees.render(image)
    Path(trees.path, tree, "hash").write_text("{")
    assert trees.verify(tree) == CHANGED


def test_trees_that_cannot_be_made(tmp_path: Path, trees: TreeStore, image: Image) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/cas").touch()
    with pytest.raises(HostError, match=r'use the image store ".*/other/cas": not a directory'):
        TreeStore(str(tmp_path / "other"))
    Path(trees.path).rmdir()
    Path(trees.path).touch()
    with pytest.raises(HostError, match=r'unpack image .*/cas/tree/sha256-.*": not a directory'):
        trees.render(image)
    with pytest.raises(HostError, match=r'read the tree ".*/nothing": no such file or directory'):
        hash_tree(str(tmp_path / "nothing"))


def test_error_is_no_missing_tree(
    trees: TreeStore, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree that seemed missing was unpacked again under running pods."""
    tree = trees.render(image)
    before = os.stat(trees.rootfs(tree)).st_ino

    def refuse(path: str) -> int:
        raise OSError(errno.EIO, "Input/output error", path)

    monkeypatch.setattr("ociruntime.base.files.posix.stat", refuse)
    with pytest.raises(HostError, match="rendered"):
        trees.is_rendered(tree)
    with pytest.raises(HostError):
        trees.render(image)
    monkeypatch.undo()
    assert os.stat(trees.rootfs(tree)).st_ino == before
