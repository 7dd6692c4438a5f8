"""The runtime on cgroup v2, a recent kernel and Python 3.13: results from the test VM."""

from __future__ import annotations

import pytest

from tests.v2box.ahead import Ahead
from tests.v2box.results import Publish
from tests.v2box.runs import LONG, RUNS

# The first test of a session may have to wait until the VM is built.
pytestmark = [pytest.mark.v2box, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(3600)]


def _marks(name: str) -> tuple[pytest.MarkDecorator, ...]:
    run = pytest.mark.box_run(name)
    return (run, pytest.mark.long) if name in LONG else (run,)


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in RUNS])
def test_inside(ahead: Ahead, publish: Publish, name: str) -> None:
    """One boot; each inner test becomes a result of its own (``v2box/tests/...``)."""
    outcome = ahead.outcome(name)
    status, out, err = outcome["status"], outcome["out"][-4000:], outcome["err"]
    path = ahead.report(name)
    assert path.exists(), out + err
    found = publish(path)
    # 1: some have failed, and say so themselves
    assert status in (0, 1), out + err
    assert "session-timeout" not in out, out
    passed = {one.nodeid for one in found if one.passed}
    for file in RUNS[name].files:
        assert any(node.startswith(f"v2box/{file}") for node in passed), f"none passed: {file}"
