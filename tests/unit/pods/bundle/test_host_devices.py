"""Devices of the host by path: single devices, directories, and other files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ociruntime.base.errors import PodError
from ociruntime.pods.bundle.host_devices import all_devices, find_devices


def test_a_device_and_a_link_to_it(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/null")
    for source in ("/dev/null", str(tmp_path / "link")):
        (one,) = find_devices(source, "/dev/x", "r")
        assert (one["path"], one["type"], one["major"], one["minor"]) == ("/dev/x", "c", 1, 3)
        assert (one["access"], one["fileMode"]) == ("r", 0o666)


@pytest.mark.parametrize("name", ["file", "fifo", "gone", "empty", "loop"])
def test_what_is_no_device(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "link").symlink_to("/dev/null")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(PodError, match=f'device ".*/{name}": '):
        find_devices(str(tmp_path / name), "/dev/x", "r")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_directory(tmp_path: Path) -> None:
    """Its devices, but not those behind a link in it."""
    (tmp_path / "a").mkdir()
    os.mknod(tmp_path / "a" / "one", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    os.mknod(tmp_path / "two", stat.S_IFBLK | 0o600, os.makedev(7, 200))
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("/dev")
    devices = find_devices(str(tmp_path), "/dev/mine", "rw")
    assert {(one["path"], one["type"]) for one in devices} == {
        ("/dev/mine/a/one", "c"),
        ("/dev/mine/two", "b"),
    }


def test_all() -> None:
    paths = {one["path"] for one in all_devices()}
    assert not {path for path in paths if path.startswith(("/dev/pts/", "/dev/shm/"))}
    assert not {"/dev/null", "/dev/console", "/dev/ptmx"} & paths


def test_too_many_files() -> None:
    with pytest.raises(PodError, match=r'device "/": .*4096 files'):
        find_devices("/", "/x", "r")
