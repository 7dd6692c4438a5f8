"""What the engines' tests share: one image, and the watch for what is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import image


@pytest.fixture(autouse=True)
def _watch(nothing_left: None) -> None:
    """Have the watch in each test, asked for or not."""


@pytest.fixture(scope="session")
def archive(base: Path, programs: dict[str, Path]) -> Path:
    """A docker-archive with the image ``tests.support.image.NAME``."""
    place = base / "image"
    place.mkdir()
    image.build(place / "image.tar", place, programs)
    return place / "image.tar"
