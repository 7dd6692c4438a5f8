"""The cgroups below a container's: it may nest them as deep as it likes."""

from __future__ import annotations

import os
from pathlib import Path

from ociruntime.runtime.cgroups.members import tree

DEPTH = 1500


def test_deeply_nested(tmp_path: Path) -> None:
    place = str(tmp_path / "top")
    os.mkdir(place)
    expected = [place]
    for _ in range(DEPTH):
        place += "/d"
        os.mkdir(place)
        expected.append(place)
    try:
        assert tree(expected[0]) == expected[::-1]  # children first
    finally:
        for path in reversed(expected):  # pytest cannot remove them
            os.rmdir(path)


def test_gone(tmp_path: Path) -> None:
    assert tree(str(tmp_path / "gone")) == []
