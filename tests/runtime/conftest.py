"""Every test here runs real containers as root and must not leave anything behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.base.linux import MS_SHARED
from tests.support import isolation
from tests.support.fast_path import Alone, by_python
from tests.support.runtime import Runtime


@pytest.fixture(autouse=True)
def _watch(nothing_left: None) -> None:
    """Apply the leak check to each test."""


@pytest.fixture
def alone(runtime: Runtime, work: Path) -> Alone:
    """The program without Python."""
    return Alone(runtime, work)


@pytest.fixture
def python(runtime: Runtime) -> Runtime:
    """The program that leaves everything to Python."""
    return by_python(runtime)


@pytest.fixture
def shared(work: Path) -> Iterator[Path]:
    """A mount with a separate peer group."""
    place = work / "shared"
    place.mkdir()
    isolation.mount("tmpfs", str(place), "tmpfs")
    isolation.mount("none", str(place), "", MS_SHARED)
    yield place
    isolation.unmount(str(place))
