"""Inner tests become results of the session: counted, with reasons, and failing it."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.support import project
from tests.v2box import results

INNER = """<testsuites><testsuite>
<testcase classname="tests.runtime.test_run" name="test_x[a.b-c::d]" time="0.5" />
<testcase classname="tests.runtime.test_run" name="test_y" time="0">
  <failure message="assert 1 == 2">def test_y: assert 1 == 2</failure>
  <error message="failed on teardown">left behind</error></testcase>
<testcase classname="tests.runtime.test_run" name="test_z" time="0">
  <skipped type="pytest.skip" message="no cpuset">somewhere</skipped></testcase>
<testcase classname="tests.runtime.test_run" name="test_w" time="0">
  <skipped type="pytest.xfail" message="later" /></testcase>
</testsuite></testsuites>"""

CONFTEST = """
import pytest
from pathlib import Path
from tests.v2box import results

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    done = yield
    results.hand_over(item, results.reports(Path("inner.xml")))
    return done
"""


@pytest.fixture
def inner(tmp_path: Path) -> Path:
    path = tmp_path / "inner.xml"
    path.write_text(INNER)
    return path


def test_reports(inner: Path) -> None:
    found = results.reports(inner)
    assert [(report.nodeid.rpartition("/")[2], report.outcome) for report in found] == [
        ("test_run.py::test_x[a.b-c::d]", "passed"),
        ("test_run.py::test_y", "failed"),
        ("test_run.py::test_y", "failed"),
        ("test_run.py::test_z", "skipped"),
        ("test_run.py::test_w", "skipped"),
    ]
    assert "assert 1 == 2" in found[1].longreprtext
    assert "left behind" in found[2].longreprtext


@pytest.mark.parametrize("flag", ["-q", "-v"])
def test_a_session_with_them(inner: Path, flag: str) -> None:
    """In another pytest, whose summary, report and status are checked."""
    place = inner.parent
    (place / "conftest.py").write_text(CONFTEST)
    (place / "test_outer.py").write_text("def test_outer(): print('captured')\n")
    (place / "pytest.ini").write_text("[pytest]\n")
    code = f"import sys, pytest; sys.path.append({str(project.ROOT)!r}); sys.exit(pytest.main())"
    command = [sys.executable, "-c", code, flag, "-ra", "-p", "no:cacheprovider", "--junitxml=r"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 failed, 2 passed, 1 skipped, 1 xfailed" in done.stdout
    assert "no cpuset" in done.stdout
    assert "FAILED v2box/tests/runtime/test_run.py::test_y" in done.stdout
    cases = {case.get("name"): case for case in ET.parse(place / "r").iter("testcase")}
    assert set(cases) == {"test_outer", "test_x[a.b-c::d]", "test_y", "test_z", "test_w"}
    assert {child.tag for child in cases["test_y"]} == {"failure"}
