"""Small files on the host: written atomically, and nothing left of a failed attempt."""

from __future__ import annotations

import errno
import os
import posix
from pathlib import Path
from typing import Any, cast

import pytest

from ociruntime.base.files import (
    cgroup_tree,
    memory_file,
    publish_file,
    replace_file,
    statvfs,
    write_new,
)


def interrupted(*_: object, **__: object) -> int:
    raise KeyboardInterrupt


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_an_interrupted_replacement_leaves_the_old_file_alone(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_new(str(path), b"old")
    monkeypatch.setattr(f"posix.{call}", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_file(str(path), b"new", lasting=True)
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_bytes() == b"old"


def test_published(tmp_path: Path) -> None:
    """A symbolic link of that name is replaced, not followed."""
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "file").symlink_to("target")
    for content in (b"first", b"second"):
        publish_file(str(tmp_path / "file"), content, 0o640)
        assert (tmp_path / "file").read_bytes() == content
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "target").read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["file", "target"]


@pytest.mark.parametrize("call", ["write", "link"])
def test_an_interrupted_publication_leaves_nothing(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"posix.{call}", interrupted)
    with pytest.raises(KeyboardInterrupt):
        publish_file(str(tmp_path / "file"), b"new")
    assert os.listdir(tmp_path) == []


def test_published_where_files_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some filesystems do not support O_TMPFILE."""
    real = os.open

    def named(path: str, flags: int, *rest: int, dir_fd: int | None = None) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "no")
        return real(path, flags, *rest, dir_fd=dir_fd)

    monkeypatch.setattr("posix.open", named)
    publish_file(str(tmp_path / "file"), b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_memory_file(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.listdir("/proc/self/fd")
    fd = memory_file("x", b"data")
    assert os.read(fd, 10) == b"data"
    os.close(fd)
    monkeypatch.setattr("posix.write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        memory_file("x", b"data")
    assert os.listdir("/proc/self/fd") == before


def test_publication_against_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it keeps creating the file, ours replaces it with a rename."""
    attempts = []

    def link(source: str, path: str, **_: object) -> None:
        attempts.append(path)
        Path(path).write_bytes(b"theirs")
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    monkeypatch.setattr("posix.link", link)
    publish_file(str(tmp_path / "file"), b"ours", 0o640)
    assert len(attempts) == 2
    assert (tmp_path / "file").read_bytes() == b"ours"
    assert os.listdir(tmp_path) == ["file"]


def test_cgroups_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the errors that the caller expects are skipped."""
    for name in ("a", "b/c"):
        (tmp_path / name).mkdir(parents=True)
    before = os.listdir("/proc/self/fd")
    top = str(tmp_path)
    assert list(cgroup_tree(f"{top}/gone", (errno.ENOENT,))) == []
    with pytest.raises(FileNotFoundError):
        list(cgroup_tree(f"{top}/gone", ()))
    real = posix.open

    def refuse(path: str, flags: int, **where: int) -> int:
        if path == "a":
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV), path)
        return real(path, flags, **where)

    monkeypatch.setattr("posix.open", refuse)
    assert list(cgroup_tree(top, (errno.ENODEV,))) == [f"{top}/b/c", f"{top}/b", top]
    with pytest.raises(OSError, match="No such device"):
        list(cgroup_tree(top, ()))
    assert os.listdir("/proc/self/fd") == before


def test_an_interrupted_statvfs_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[object] = [InterruptedError(), InterruptedError(), "facts"]

    def interrupted(place: str) -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("posix.statvfs", interrupted)
    assert statvfs("/") == cast("Any", "facts")
