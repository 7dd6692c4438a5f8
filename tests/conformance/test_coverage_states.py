"""docs/spec-coverage.md: the status of a clause, from the runs on several hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.clauses import registry
from conformance.deviations import Deviation
from conformance.driver import Runtime
from conformance.report.run import Run
from conformance.runner.outcome import FAIL, PASS, SKIP, Outcome
from tools.spec_coverage import Apart, judged, page

ONE = Runtime(Path("/bin/one"), "one", "1.0")
CLAUSE = registry()["CFG-HOST-01"]


def run(kind: str, *statuses: str, reason: str = "") -> Run:
    """Return a run whose cases are about one clause; ``reason`` is that of all failures."""
    outcomes = [
        Outcome(ONE.label, f"s::{kind}{n}", (CLAUSE.id,), status, f"{status} on {kind}")
        for n, status in enumerate(statuses)
    ]
    known = {one.case: Deviation(one.case, one.clauses, reason) for one in outcomes if reason}
    return Run([ONE], outcomes, {ONE.label: known}, {"kind": kind, "kernel": "6.1"}, "now")


@pytest.mark.parametrize(
    ("runs", "state", "why", "shown_by"),
    [
        ((run("v1", PASS), run("v2", SKIP)), "met", "", ("`s::v10`",)),
        ((run("v1", SKIP), run("v2", PASS)), "met", "", ("`s::v20` (cgroup v2)",)),
        ((run("v1", PASS), run("v2", FAIL)), "failed", "fail on v2 (cgroup v2)", None),
        ((run("v1", FAIL, reason="not yet"),), "failed", "not yet (cgroup v1)", None),
        ((run("v1", FAIL, reason="deviation: so"),), "decided otherwise", "so", None),
        (
            (run("v1", FAIL, reason="deviation: so"), run("v2", FAIL)),
            "failed",
            "deviation: so (cgroup v1); fail on v2 (cgroup v2)",
            None,
        ),
        ((run("v1", SKIP), run("v1", SKIP, PASS)), "met", "", ("`s::v11`",)),
        ((run("v1", SKIP),), "not shown", "skip on v1 (cgroup v1)", ()),
    ],
)
def test_state(runs: list[Run], state: str, why: str, shown_by: tuple[str, ...] | None) -> None:
    found = judged(CLAUSE, runs, None)
    assert (found.state, found.why) == (state, why)
    assert shown_by is None or found.shown_by == shown_by


def test_tests_apart_count_only_where_no_host_shows_anything() -> None:
    apart = Apart("no host has it", ("tests/x.py::test_x",))
    assert judged(CLAUSE, [run("v1", SKIP)], apart).state == "tested apart"
    assert judged(CLAUSE, [run("v1", SKIP), run("v2", PASS)], apart).state == "met"
    assert judged(CLAUSE, [run("v1", FAIL)], apart).state == "failed"


def test_page() -> None:
    text = page([run("v1", PASS), run("systemd", FAIL)])
    assert "* cgroup v2 with systemd: Linux 6.1; 0 cases passed, 1 failed" in text
    assert f"| {CLAUSE.id}: " in text
