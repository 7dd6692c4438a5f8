"""Paths resolved below a root: links can neither lead out of it, nor loop forever."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.base.open_below_root import open_inside


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "a/b").mkdir(parents=True)
    fd = os.open(tmp_path, os.O_PATH)
    before = os.listdir("/proc/self/fd")
    yield fd
    assert os.listdir("/proc/self/fd") == before, "no directory on the way stays open"
    os.close(fd)


def place(fd: int) -> str:
    """Return the path of an open directory, and close it."""
    path = os.readlink(f"/proc/self/fd/{fd}")
    os.close(fd)
    return path


@pytest.mark.parametrize(
    ("path", "found"),
    [("a/b", "/a/b"), ("/../../a", "/a"), ("a/b/../..", ""), ("a/./b//", "/a/b"), ("/", "")],
)
def test_inside(root: int, tmp_path: Path, path: str, found: str) -> None:
    assert place(open_inside(root, path, os.O_PATH)) == f"{tmp_path}{found}"


def test_endless_walk(root: int) -> None:
    """A path may go down and up again, but only up to a limit."""
    assert place(open_inside(root, "a/../" * 511 + "a", os.O_PATH)).endswith("/a")
    with pytest.raises(OSError, match="Too many levels") as caught:
        open_inside(root, "a/../" * 513, os.O_PATH)
    assert caught.value.errno == errno.ELOOP


def test_links_that_go_down_and_up(root: int, tmp_path: Path) -> None:
    """Few links, each with a long target."""
    (tmp_path / "long").symlink_to("a/../" * 600 + "a")
    with pytest.raises(OSError, match="Too many levels"):
        open_inside(root, "long/../long", os.O_PATH)
