"""Imports that fail: each error names the blob, and nothing is left of the import."""

from __future__ import annotations

import errno
import fcntl
import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.model.image_limits import Budget, Limits
from ociruntime.images.store import import_image
from ociruntime.images.store.import_image import Incoming, remove_stale
from ociruntime.images.store.store import Store
from tests.support import images
from tests.unit.images.trees import FREE

DIGEST = images.digest(b"content")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "data"))


@pytest.fixture
def incoming(store: Store) -> Iterator[Incoming]:
    with Incoming(store, Budget(Limits(), lambda: (FREE, FREE))) as one:
        yield one
    assert os.listdir(store.tmp) == []


def fail(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_blob_that_cannot_be_written(
    incoming: Incoming, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(HostError, match=f"write blob {DIGEST}: input/output error"):
        incoming.add_bytes(b"content", DIGEST)
    assert os.listdir(incoming.path) == []


def test_blobs_that_cannot_be_read(incoming: Incoming) -> None:
    for action in (incoming.read, incoming._size):
        with pytest.raises(HostError, match=f"read blob {DIGEST}: no such file"):
            action(DIGEST)


def test_blobs_that_cannot_be_linked(
    incoming: Incoming, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = str(tmp_path / "file")
    with pytest.raises(HostError, match=f'link "{path}" into "{incoming.path}": no such file'):
        incoming.adopt(path, DIGEST)
    assert not incoming.has(DIGEST)
    Path(path).write_bytes(b"content")
    incoming.adopt(path, DIGEST)
    assert incoming.has(DIGEST)
    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(HostError, match=f'link blob {DIGEST} into "{incoming.path}": input/out'):
        incoming.has(DIGEST)


def test_an_image_without_its_manifest(incoming: Incoming) -> None:
    with pytest.raises(ImageError, match=f"import image {DIGEST}: its manifest .* missing"):
        incoming.commit(DIGEST)


def test_blobs_that_cannot_be_moved(
    incoming: Incoming, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image is not in the store then, not even in part."""
    built = images.BuiltImage([images.pack({"a": "1"})])
    for digest, content in built.blobs.items():
        incoming.add_blob(io.BytesIO(content), digest)
    incoming.add_bytes(built.manifest)
    with monkeypatch.context() as patch:
        patch.setattr(store.blobs, "sync", fail)
        with pytest.raises(HostError, match=f'move blobs to "{store.blobs.path}": input/output'):
            incoming.commit(built.id, "it:latest")
    with pytest.raises(ImageError):
        store.find("it:latest")
    assert store.database.execute("SELECT count(*) FROM images").fetchone() == (0,)
    assert incoming.commit(built.id, "it:latest").name == "it:latest"


def test_stale_imports_that_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HostError, match=f'remove stale .* in "{tmp_path}/file": not a dir'):
        remove_stale(str(tmp_path / "file"))
    (tmp_path / "1-a").mkdir()
    (tmp_path / "1-a" / "blob").write_bytes(b"four")
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", fail)
        with pytest.raises(HostError, match="remove stale imports"):
            remove_stale(str(tmp_path))
    assert remove_stale(str(tmp_path)) == (2, 4)
    assert sorted(os.listdir(tmp_path)) == ["file"]


def test_a_sweep_that_removes_a_new_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it could be locked: another directory is made."""
    made: list[str] = []
    original = os.mkdir

    def mkdir(path: str, mode: int) -> None:
        original(path, mode)
        made.append(path)
        if len(made) == 1:
            os.rmdir(path)

    monkeypatch.setattr(os, "mkdir", mkdir)
    path, lock = import_image._new_directory(str(tmp_path))
    os.close(lock)
    assert made[1:] == [path]
    with pytest.raises(HostError, match=f'create a .* in "{tmp_path}/none": no such file'):
        import_image._new_directory(str(tmp_path / "none"))
