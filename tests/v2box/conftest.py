"""The session's test VM, and the results of its runs."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support import cgroupfs, systemd
from tests.v2box import results
from tests.v2box.ahead import Ahead

INSIDE = Path(__file__).parent / "inside"
UNITS = Path(__file__).parent / "systemd"
FOUND = pytest.StashKey[list[pytest.TestReport]]()
AHEAD = pytest.StashKey[Ahead]()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Run tests of cgroup v2 in the test VM, and on machines that have cgroup v2."""
    if collection_path == UNITS and not systemd.booted():
        return True
    return True if collection_path in (INSIDE, UNITS) and not cgroupfs.is_v2() else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the runs that the selected tests need: they are last, and take minutes."""
    wanting = [
        item
        for item in session.items
        if "ahead" in getattr(item, "fixturenames", ()) and not _is_skipped(item)
    ]
    if wanting and not session.config.option.collectonly:
        runs = [mark.args[0] for item in wanting for mark in item.iter_markers("box_run")]
        session.config.stash[AHEAD] = Ahead(runs)


def _is_skipped(item: pytest.Item) -> bool:
    return item.get_closest_marker("skip") is not None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the background process; if the session is killed, it notices by itself."""
    if AHEAD in session.config.stash:
        session.config.stash[AHEAD].end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Report a test's inner tests after it, when output is no longer captured."""
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
def ahead(pytestconfig: pytest.Config) -> Ahead:
    """Build the test VM and run its tests."""
    one = pytestconfig.stash[AHEAD]
    reason = one.outcome("tree").get("no box")
    if reason:
        pytest.skip(reason)
    return one


@pytest.fixture(scope="session")
def box(ahead: Ahead) -> None:
    """Build the test VM, with nothing running in it."""
    for name in ahead.names:
        ahead.outcome(name)
