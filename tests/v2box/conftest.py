"""The box of the session, and the results that come out of it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support import cgroupfs, systemd
from tests.v2box import machine, results

INSIDE = Path(__file__).parent / "inside"
UNITS = Path(__file__).parent / "systemd"
FOUND = pytest.StashKey[list[pytest.TestReport]]()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """What is about cgroup v2 runs in the box, and on machines that have it themselves."""
    if collection_path == UNITS and not systemd.booted():
        return True
    return True if collection_path in (INSIDE, UNITS) and not cgroupfs.is_v2() else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """After the test, when its output is no longer captured, its inner tests are told."""
    done = yield
    results.hand_over(item, item.stash.get(FOUND, []))
    return done


@pytest.fixture
def publish(request: pytest.FixtureRequest) -> results.Publish:
    """Make each inner test of a JUnit report a result of this session."""

    def add(path: Path) -> list[pytest.TestReport]:
        found = results.reports(path)
        request.node.stash.setdefault(FOUND, []).extend(found)
        return found

    return add


@pytest.fixture(scope="session")
def tree() -> None:
    """The box is built."""
    try:
        machine.built()
    except machine.NoBox as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def project_in_box(tree: None, tmp_path_factory: pytest.TempPathFactory) -> machine.Machine:
    return machine.installed(tmp_path_factory.mktemp("v2box"))
