"""Hosts and pods for tests of networks: namespaces that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.netns import NetworkNamespace
from tests.unit.net.hosts import TestHost


@pytest.fixture
def namespaces() -> Iterator[Callable[[], NetworkNamespace]]:
    """Makes namespaces."""
    made: list[NetworkNamespace] = []

    def make() -> NetworkNamespace:
        made.append(NetworkNamespace())
        return made[-1]

    yield make
    for namespace in made:
        namespace.close()


@pytest.fixture
def host(namespaces: Callable[[], NetworkNamespace], tmp_path: Path) -> TestHost:
    """A machine without anything but ``lo``."""
    return TestHost(namespaces, tmp_path)
