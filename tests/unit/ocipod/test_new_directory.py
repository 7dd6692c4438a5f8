"""Where a command may make a directory, and where it must not replace one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ociruntime.errors import UsageError
from ociruntime.ocipod.new_directory import check_target


def refused(target: Path | str, data: Path, *, overwrite: bool = True) -> str:
    with pytest.raises(UsageError) as caught:
        check_target(str(target), str(data), overwrite=overwrite)
    return str(caught.value)


def test_places_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    here = tmp_path / "a" / "b"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    assert '"/" cannot be replaced: is the root directory' in refused("/", data)
    assert "cannot be replaced" in refused(here, data)
    assert "is in it, or is it" in refused(tmp_path / "a", data)
    assert "where pods and images are" in refused(data / "new", data)
    assert "is a mount point" in refused("/proc", data)


def test_what_is_there(tmp_path: Path) -> None:
    data = tmp_path / "data"
    place = tmp_path / "place"
    assert check_target(str(place), str(data), overwrite=False) == str(place)
    place.mkdir()
    assert check_target(str(place), str(data), overwrite=False) == str(place), "it is empty"
    (place / "file").touch()
    assert "exists (--overwrite replaces it)" in refused(place, data, overwrite=False)
    assert check_target(str(place), str(data), overwrite=True) == os.path.realpath(place)
    assert "is no directory" in refused(place / "file", data)
