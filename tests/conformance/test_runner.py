"""The kit's runner: every outcome of a case, and nothing left behind by any of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance import cli
from conformance.case import discover

Outcomes = dict[str, Any]
pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    script = Path(__file__).with_name("pool_cases.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: Outcomes = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("case", "status", "message"),
    [
        ("good", "pass", ""),
        ("bad", "fail", "one: 1 instead of 2"),
        ("skipped", "skip", "no such thing here"),
        ("faulty", "error", "KeyError: 'x'"),
        ("hanging", "fail", "timed out after 1.5 s"),
        ("ending", "error", "the case's process exited without an outcome"),
        ("hanging_command", "fail", "did not return within 0.5 s"),
        ("leaving_process", "pass", ""),
        ("leaving_file", "pass", ""),
        ("apart", "pass", ""),
    ],
)
def test_fate(outcomes: Outcomes, case: str, status: str, message: str) -> None:
    found = outcomes[f"fates::{case}"]
    assert found["status"] == status
    assert message in found["message"]


def test_what_is_left_is_told_and_cleared(outcomes: Outcomes) -> None:
    (process,) = outcomes["fates::leaving_process"]["left"]
    assert process.startswith("process ")
    assert not Path("/proc", process.split()[1]).exists()
    (entry,) = outcomes["fates::leaving_file"]["left"]
    assert entry.startswith("entry /run/")
    assert not Path(entry.split()[1]).exists()
    assert not outcomes["directory"]["left"]
    assert not outcomes["cgroups"]["left"]
    assert not outcomes["late cgroups"]["left"]


def test_filters() -> None:
    cases = discover()
    assert cli.selected(cases, [], "all") == cases
    assert {one.section for one in cli.selected(cases, ["runtime_state::"], "all")} == {
        "runtime_state"
    }
    hosts = cli.selected(cases, ["CFG-HOST-0"], "all")
    assert hosts
    assert all(any(id.startswith("CFG-HOST-0") for id in one.clauses) for one in hosts)
    assert 0 < len(cli.selected(cases, [], "must")) < len(cli.selected(cases, [], "should"))


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--runtime", "true", "--report", "pdf=x"], ["diff"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        assert ended.value.code == 2
    with pytest.raises(SystemExit, match="no such executable"):
        cli.main(["--runtime", "/nowhere/runtime"])
    capsys.readouterr()


def test_list(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert cli.main(["--list", "--filter", "RT-KILL"]) == 0
    assert "runtime_operations::" in capsys.readouterr().out
