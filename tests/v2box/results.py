"""Results of tests that ran in the test VM, from its JUnit report."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

Publish = Callable[[Path], list[pytest.TestReport]]
Outcome = Literal["passed", "failed", "skipped"]


def node_id(case: ET.Element) -> str:
    """Return ``v2box/tests/runtime/test_run.py::test_x``, which no file of this machine has."""
    return f"v2box/{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"


def reports(path: Path) -> list[pytest.TestReport]:
    """Return one report for each inner test; two if its teardown also failed."""
    return [report for case in ET.parse(path).iter("testcase") for report in _of_case(case)]


def _of_case(case: ET.Element) -> Iterator[pytest.TestReport]:
    marks = [child for child in case if child.tag in ("failure", "error", "skipped")]
    if not marks:
        yield _report(case, "passed", None)
    for mark in marks:
        message, text = mark.get("message", ""), mark.text or ""
        if mark.tag != "skipped":
            yield _report(case, "failed", f"{message}\n{text}" if mark.tag == "error" else text)
            continue
        report = _report(case, "skipped", (node_id(case), 0, f"Skipped: {message}"))
        if mark.get("type") == "pytest.xfail":
            report.wasxfail = message
        yield report


def _report(
    case: ET.Element, outcome: Outcome, longrepr: str | tuple[str, int, str] | None
) -> pytest.TestReport:
    name = node_id(case)
    return pytest.TestReport(
        nodeid=name,
        location=(name.partition("::")[0], 0, case.get("name", "")),
        keywords={"v2box": 1},
        outcome=outcome,
        longrepr=longrepr,
        when="call",
        duration=float(case.get("time", 0)),
    )


def hand_over(item: pytest.Item, found: list[pytest.TestReport]) -> None:
    """Report the inner tests to this session as if they had run in it, right after ``item``."""
    item.session.testscollected += len({report.nodeid for report in found})
    for report in found:
        item.ihook.pytest_runtest_logstart(nodeid=report.nodeid, location=report.location)
        for when in ("setup", "call", "teardown"):
            item.ihook.pytest_runtest_logreport(report=_phase(report, when))
        item.ihook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)


def _phase(report: pytest.TestReport, when: str) -> pytest.TestReport:
    """Return the reports of all three phases, which reporters expect."""
    if when == "call":
        return report
    return pytest.TestReport(
        nodeid=report.nodeid,
        location=report.location,
        keywords=report.keywords,
        outcome="passed",
        longrepr=None,
        when="setup" if when == "setup" else "teardown",
    )
