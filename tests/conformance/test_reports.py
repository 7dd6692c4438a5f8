"""Reports contain the same results in every format."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from conformance.case import Case
from conformance.clauses import registry
from conformance.deviations import Deviation
from conformance.driver import Runtime, tell_apart
from conformance.report import document, formats, html, junit, tap, text
from conformance.report.run import Run
from conformance.runner.outcome import (
    ERROR,
    FAIL,
    HIDDEN,
    PASS,
    SKIP,
    UNTESTED,
    Outcome,
    broken,
    judge,
)

ONE, TWO = Runtime(Path("/bin/one"), "one", "1.0"), Runtime(Path("/bin/two"), "two", "2.0")
CLAUSE, OTHER = "CFG-HOST-01", "CFG-HOST-02"


def outcome(case: str, status: str, message: str = "", runtime: Runtime = ONE) -> Outcome:
    return Outcome(runtime.label, f"section::{case}", (CLAUSE,), status, message, 0.25)


def known(*cases: str, sometimes: bool = False) -> dict[str, Deviation]:
    names = [f"section::{case}" for case in cases]
    return {name: Deviation(name, (CLAUSE,), "as decided", sometimes) for name in names}


@pytest.fixture
def run() -> Run:
    outcomes = [
        outcome("good", PASS),
        outcome("bad", FAIL, "seen \x01 <b> & #1\nsecond line"),
        outcome("listed", FAIL, "not so"),
        outcome("away", SKIP, "needs #2"),
        outcome("odd", ERROR, "KeyError: 'x'"),
        outcome("good", PASS, runtime=TWO),
    ]
    return Run([ONE, TWO], outcomes, {ONE.label: known("listed", "good")}, {"kernel": "6.1"}, "now")


def test_changes(run: Run) -> None:
    assert {case for _, case in run.changed} == {"section::good", "section::bad", "section::odd"}
    assert run.failed
    assert not Run([ONE], [outcome("listed", FAIL)], {ONE.label: known("listed")}).failed
    assert Run([ONE], [outcome("listed", FAIL)]).failed
    assert not Run([ONE], [outcome("a", PASS)], {ONE.label: known("a", sometimes=True)}).failed


def test_a_skip_is_no_change() -> None:
    assert not Run([ONE], [outcome("a", SKIP)], {ONE.label: known("a")}).changed


def test_what_was_left_counts() -> None:
    one = outcome("a", PASS)
    one.left, one.blamed = ["mount x"], "RT-DELETE-04"
    run = Run([ONE], [one], {ONE.label: {}})
    assert run.failed
    assert run.verdicts[ONE.label]["RT-DELETE-04"].status == FAIL
    assert run.verdicts[ONE.label][CLAUSE].status == PASS


def test_json_round_trip(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    formats.write(run, "json", str(file))
    found = json.loads(file.read_text())
    assert found["clauses"].keys() == registry().keys()
    assert found["clauses"][CLAUSE]["states"][ONE.label]["status"] == FAIL
    assert found["clauses"][CLAUSE]["states"][TWO.label]["status"] == PASS
    assert found["clauses"]["SPEC-01"]["states"][ONE.label]["status"] == HIDDEN
    assert found["clauses"][OTHER]["states"][ONE.label]["status"] == UNTESTED
    assert document.dump(document.load(file)) == file.read_text()


def test_not_a_result(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("[]")
    with pytest.raises(ValueError, match="not a JSON report"):
        document.load(tmp_path / "x")


def test_tap(run: Run) -> None:
    lines = tap.dump(run).splitlines()
    assert lines[:2] == ["TAP version 14", "1..6"]
    points = [line for line in lines if re.match(r"(not )?ok ", line)]
    assert [int(line.split("-")[0].split()[-1]) for line in points] == [1, 2, 3, 4, 5, 6]
    assert points[2].startswith("not ok 3 -")
    assert points[2].endswith("# TODO as decided")
    assert points[3].endswith("# SKIP needs \\#2")


def test_junit(run: Run) -> None:
    root = ET.fromstring(junit.dump(run))
    first, second = root.findall("testsuite")
    counts = {key: first.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "5", "failures": "1", "errors": "1", "skipped": "2"}
    assert second.get("tests") == "1"
    (failure,) = first.iter("failure")
    assert failure.text == "seen \\x01 <b> & #1\nsecond line"


class Page(HTMLParser):
    """The texts of an HTML page, and every URL that a browser would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.rows: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag in {"script", "link", "img", "iframe"} or "src" in found:
            self.fetched.append(tag)
        if tag == "tr" and found.get("id"):
            self.rows.append(str(found["id"]))


def test_html(run: Run) -> None:
    made = html.dump(run)
    page = Page(made)
    assert page.rows == list(registry())
    assert page.fetched == []
    assert "url(" not in made
    assert "@import" not in made
    assert "&lt;b&gt; &amp; #1" in made
    assert "<b> & #1" not in made


def test_text(run: Run) -> None:
    made = text.dump(run)
    assert "changed: fails, but is expected to pass" in made
    assert f"failing: {CLAUSE}" in made


def test_judge() -> None:
    for statuses, wanted in (
        ([], UNTESTED),
        ([SKIP], SKIP),
        ([SKIP, PASS], PASS),
        ([PASS, ERROR], ERROR),
        ([ERROR, FAIL, PASS], FAIL),
    ):
        assert judge(CLAUSE, [outcome("a", status) for status in statuses]).status == wanted


def test_broken_case() -> None:
    case = Case("name", "section", (CLAUSE,), "text", lambda _: None)
    assert broken("one 1.0", case, "gone").bad


def test_unwritable(run: Run, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="No such file"):
        formats.write(run, "tap", str(tmp_path / "no" / "file"))


def test_deviations_of_a_relative(tmp_path: Path) -> None:
    """A version without its own list is compared with that of the nearest version."""
    outcomes = [outcome("listed", FAIL), outcome("bad", FAIL), outcome("good", PASS)]
    one = Run([ONE], outcomes, related={ONE.label: ("one-0.9", known("listed", "good"))})
    assert one.failed
    assert [each.case for each in one.shared(ONE.label)] == ["section::listed"]
    assert "known deviations of one-0.9: 1 of 2 failures" in text.summary(one)
    assert "section::listed: as decided" in text.summary(one)
    file = tmp_path / "report.json"
    file.write_text(document.dump(one))
    assert document.load(file) == one


def test_two_builds_of_one_version(tmp_path: Path) -> None:
    first, second = tell_apart([ONE, Runtime(Path("/opt/one"), "one", "1.0")])
    outcomes = [outcome("a", PASS, runtime=first), outcome("a", FAIL, runtime=second)]
    both = Run([first, second], outcomes)
    assert [both.verdicts[each.label][CLAUSE].status for each in (first, second)] == [PASS, FAIL]
    assert {"one 1.0 (/bin/one)", "one 1.0 (/opt/one)"} == both.verdicts.keys()
    file = tmp_path / "report.json"
    file.write_text(document.dump(both))
    assert document.load(file) == both
    assert "one 1.0 (/opt/one)" in html.dump(both)
