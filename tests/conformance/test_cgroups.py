"""The kit finds its own cgroups among those of the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conformance import cgroups
from conformance.cgroups import Hierarchy


def test_cgroups_that_others_have_nested_deep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kit searches below all of them."""
    place = str(tmp_path)
    made = []
    for _ in range(1500):
        place += "/d"
        os.mkdir(place)
        made.append(place)
    os.mkdir(f"{place}/own-token")
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [Hierarchy(tmp_path, 1, frozenset())])
    try:
        assert cgroups.named("token") == {Path(place, "own-token")}
    finally:
        os.rmdir(f"{place}/own-token")
        for path in reversed(made):  # pytest cannot remove them
            os.rmdir(path)
