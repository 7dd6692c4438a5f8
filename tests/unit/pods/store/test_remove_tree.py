"""Trees are removed in any state that programs have left, and nothing else is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ociruntime.pods.store import remove_tree
from ociruntime.pods.store.lock import open_directory
from tests.support.descriptors import open_descriptors


def remove(path: Path) -> None:
    fd = open_directory(str(path.parent))
    try:
        remove_tree.remove_tree(fd, path.name)
    finally:
        os.close(fd)


def test_links_are_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    tree = tmp_path / "tree"
    (tree / "below").mkdir(parents=True)
    (tree / "below" / "link").symlink_to(kept)
    (tree / "dangling").symlink_to("nowhere")
    os.mkfifo(tree / "pipe")
    remove(tree)
    assert os.listdir(tmp_path) == ["kept"]
    assert os.listdir(kept) == ["file"]


def test_a_link_itself(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to("kept")
    remove(tmp_path / "link")
    assert os.listdir(tmp_path) == ["kept"]


def test_nothing_there(tmp_path: Path) -> None:
    remove(tmp_path / "nothing")


def test_names_of_any_bytes(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in (b"\xff\xfe", b"new\nline", b" ", b"-rf"):
        os.mkdir(os.fsencode(tree) + b"/" + name)
    remove(tree)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("deepest", [1, 2, 7, 100])
def test_deeper_than_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deepest: int
) -> None:
    monkeypatch.setattr(remove_tree, "_DEEPEST", deepest)
    descriptors = open_descriptors()
    tree = tmp_path / "tree"
    tree.mkdir()
    here = os.getcwd()
    try:
        os.chdir(tree)
        for _ in range(300):
            os.mkdir("d")
            Path("f").touch()
            os.chdir("d")
    finally:
        os.chdir(here)
    remove(tree)
    assert os.listdir(tmp_path) == []
    assert open_descriptors() == descriptors


def test_somebody_still_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tmp_path / "tree"
    (tree / "below").mkdir(parents=True)
    late = iter(["first", "second"])
    unlink = remove_tree._unlink

    def writing(name: bytes, parent: int) -> bool:
        if file := next(late, None):
            (tree / file).touch()
        return unlink(name, parent)

    monkeypatch.setattr(remove_tree, "_unlink", writing)
    remove(tree)
    assert not tree.exists()


def test_somebody_never_ends_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    monkeypatch.setattr(remove_tree, "_list", lambda fd: [])
    (tree / "file").touch()
    with pytest.raises(OSError, match="not empty"):
        remove(tree)
