"""The fixture of the tests of pods."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import leaks, processes
from tests.support.ocipod import Ocipod, after


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "ocipod" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.root)
            if os.geteuid() != 0:
                item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.fixture
def ocipod(work: Path) -> Iterator[Ocipod]:
    """``ocipod`` with an empty directory; fails if pods of it leave anything on the host."""
    one = Ocipod(work / "data")
    mounts = leaks.mount_table()
    running = frozenset(processes.descendants())
    yield one
    one.finish()
    found = after(one, lambda: one.left(mounts, running))
    if found:
        processes.end(processes.descendants() - running)
        processes.reap_orphans()
        pytest.fail("left behind: " + "; ".join(found), pytrace=False)
