"""A runtime that refuses everything meets no clause: refusals also need a successful create."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.report import document
from conformance.runner.outcome import FAIL, SKIP
from tests.support import project

pytestmark = [pytest.mark.root, pytest.mark.timeout(120)]
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/root")}
# Sections with the most refusals; the others follow the same rule (runner/worker.py).
SECTIONS = ("bundle_json::", "config_version_root::", "linux_namespaces::", "runtime_operations::")


@pytest.mark.parametrize(
    ("sections", "least"),
    [
        pytest.param(SECTIONS[:1], 20, id="one"),
        pytest.param(SECTIONS, 150, id="all", marks=pytest.mark.long),
    ],
)
def test_no_clause_is_met(tmp_path: Path, sections: tuple[str, ...], least: int) -> None:
    program = tmp_path / "refuses"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "conformance", "--runtime", str(program), "--jobs", "2"]
    command += ["--expected", "none", "--report", f"json={report}"]
    command += [word for section in sections for word in ("--filter", section)]
    subprocess.run(command, cwd=project.ROOT, env=ENVIRONMENT, capture_output=True, check=False)
    outcomes = document.load(report).outcomes
    assert len(outcomes) > least
    assert {one.status for one in outcomes} - {SKIP} == {FAIL}
