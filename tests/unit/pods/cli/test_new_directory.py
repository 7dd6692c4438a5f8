"""Directories that a command creates, and those that it must not replace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ociruntime.base.deep_tree import TreeCursor
from ociruntime.base.errors import HostError, UsageError
from ociruntime.pods.cli.new_directory import check_target, new_file, put_directory


def refused(target: Path | str, data: Path, *, overwrite: bool = True) -> str:
    with pytest.raises(UsageError) as caught:
        check_target(str(target), str(data), overwrite=overwrite)
    return str(caught.value)


def test_places_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    here = tmp_path / "a" / "b"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    assert 'replace "/": ' in refused("/", data)
    assert 'replace "' in refused(here, data)
    assert "or contains" in refused(tmp_path / "a", data)
    assert "data directory" in refused(data / "new", data)
    assert "mount point" in refused("/proc", data)


def test_what_is_there(tmp_path: Path) -> None:
    data = tmp_path / "data"
    place = tmp_path / "place"
    assert check_target(str(place), str(data), overwrite=False) == str(place)
    place.mkdir()
    assert check_target(str(place), str(data), overwrite=False) == str(place), "it is empty"
    (place / "file").touch()
    assert "already exists (use --overwrite to replace it)" in refused(place, data, overwrite=False)
    assert check_target(str(place), str(data), overwrite=True) == os.path.realpath(place)
    assert "is not a directory" in refused(place / "file", data)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A container may have created it in a volume, leading to a directory of the host."""
    data = tmp_path / "data"
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    (tmp_path / "link").symlink_to("full")
    (tmp_path / "dangling").symlink_to(tmp_path / "missing")
    assert "symbolic link" in refused(tmp_path / "link", data)
    assert "symbolic link" in refused(f"{tmp_path}/link/", data)
    assert "symbolic link" in refused(tmp_path / "dangling", data, overwrite=False)


def test_what_was_replaced_meanwhile_does_not_take_the_place(tmp_path: Path) -> None:
    """A program writes to the same directory."""
    (tmp_path / "outside").mkdir()

    def replace(new: int) -> None:
        (made,) = tmp_path.glob(".out.*")
        made.rename(tmp_path / "moved")
        made.symlink_to(tmp_path / "outside")
        os.mkdir("inside", dir_fd=new)

    with pytest.raises(HostError, match="was replaced"):
        put_directory(str(tmp_path / "out"), replace)
    assert sorted(os.listdir(tmp_path)) == ["moved", "outside"]
    assert os.listdir(tmp_path / "outside") == []


def test_a_link_on_the_way_that_was_no_link_before(tmp_path: Path) -> None:
    data = tmp_path / "data"
    place = tmp_path / "a" / "place"
    (tmp_path / "a").mkdir()
    (tmp_path / "outside").mkdir()
    path = check_target(str(place), str(data), overwrite=False)
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "a").symlink_to("outside")
    with pytest.raises(HostError, match="create directory"):
        put_directory(path, lambda new: None)
    assert os.listdir(tmp_path / "outside") == []


def test_a_deep_directory_is_replaced(tmp_path: Path) -> None:
    """Deeper than Python's recursion limit."""
    with TreeCursor(str(tmp_path)) as deep:
        for _ in range(1200):
            os.mkdir("deep", dir_fd=deep.fd)
            deep.down("deep")
    put_directory(str(tmp_path / "deep"), lambda new: os.mkdir("new", dir_fd=new))
    assert os.listdir(tmp_path) == ["deep"]
    assert os.listdir(tmp_path / "deep") == ["new"]


def test_a_file_takes_the_place_of_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("mine")
    (tmp_path / "file").symlink_to("outside")
    with new_file(str(tmp_path / "file"), overwrite=True) as file:
        file.write(b"new")
    assert (tmp_path / "outside").read_text() == "mine"
    assert (tmp_path / "file").read_bytes() == b"new"
    assert not (tmp_path / "file").is_symlink()
