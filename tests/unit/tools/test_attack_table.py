"""The table of ``./dev attack``, made of JUnit reports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import project
from tools import attack_table

XFAIL = '<skipped type="pytest.xfail" message="runc: {}"/>'
SKIP = '<skipped type="pytest.skip" message="{}"/>'
FAILURE = '<failure message="{}"/>'
TEARDOWN = '<error message="failed on teardown with &quot;host changed&quot;"/>'
SETUP = '<error message="failed on setup with &quot;no gcc&quot;"/>'


def report(path: Path, *cases: tuple[str, str]) -> Path:
    body = "".join(
        f'<testcase classname="tests.attacks.test_hostile_root" name="{name}">{inner}</testcase>'
        for name, inner in cases
    )
    path.write_text(f"<testsuites><testsuite>{body}</testsuite></testsuites>")
    return path


@pytest.mark.parametrize(
    ("inner", "verdict"),
    [
        ("", "withstood"),
        ("<system-out>words</system-out>", "withstood"),
        (FAILURE, "let through"),
        (XFAIL, "let through"),
        (TEARDOWN, "let through"),
        (SETUP, "broken: see the report"),
        (
            SKIP.format("runc has none; only ociruntime"),
            "not applicable: the runtime has no such command",
        ),
        (SKIP.format("needs root"), "skipped: needs root"),
    ],
)
def test_verdicts(tmp_path: Path, inner: str, verdict: str) -> None:
    found = attack_table.column(report(tmp_path / "r.xml", ("test_masks", inner)))
    assert found == {"hostile root: masks": verdict}


def test_a_later_passing_entry_does_not_hide_a_breach(tmp_path: Path) -> None:
    """A test that fails and whose canary fails too has two entries."""
    cases = ("test_masks", ""), ("test_masks", TEARDOWN), ("test_masks", "")
    assert set(attack_table.column(report(tmp_path / "r.xml", *cases)).values()) == {"let through"}


def test_table(tmp_path: Path) -> None:
    own = report(tmp_path / "own.xml", ("test_masks", ""), ("test_mount[userns-none]", ""))
    peer = report(tmp_path / "peer.xml", ("test_masks", FAILURE))
    columns = {"ociruntime": attack_table.column(own), "runc": attack_table.column(peer)}
    assert [line.split("  ")[0] for line in attack_table.table(columns)][2:4] == [
        "hostile root: masks",
        "hostile root: mount, userns, none",
    ]
    first, second, last = (attack_table.table(columns)[index].split() for index in (2, 3, -1))
    assert first[-3:] == ["withstood", "let", "through"]
    assert second[-3:] == ["withstood", "not", "run"]
    assert " ".join(last) == "2 attacks 2 withstood, 0 let through 0 withstood, 1 let through"


def test_reasons_are_notes_below(tmp_path: Path) -> None:
    skipped = SKIP.format("needs root")
    cases = ("test_a", skipped), ("test_b", ""), ("test_c", skipped)
    column = attack_table.column(report(tmp_path / "r.xml", *cases, ("test_d", SETUP)))
    lines = attack_table.table({"runc": column})
    assert lines[2].split("  ")[-1] == "skipped [1]"
    assert lines[4].split("  ")[-1] == "skipped [1]"
    assert lines[5].split("  ")[-1] == "broken [2]"
    assert lines[-2:] == ["[1] needs root", "[2] see the report"]


@pytest.mark.parametrize(
    ("cases", "status"),
    [
        ([("test_a", ""), ("test_b", SKIP.format("needs root"))], 0),
        ([("test_a", ""), ("test_b", FAILURE)], 1),
        ([("test_a", SETUP)], 1),
        ([("test_a", SKIP.format("needs root"))], 1),
    ],
)
def test_exit_status(tmp_path: Path, cases: list[tuple[str, str]], status: int) -> None:
    """The first column decides; nothing tried is no success."""
    own = report(tmp_path / "own.xml", *cases)
    peer = report(tmp_path / "peer.xml", ("test_a", FAILURE))
    tool = project.ROOT / "tools" / "attack_table.py"
    words = [f"ociruntime={own}", f"runc={peer}"]
    done = subprocess.run([sys.executable, str(tool), *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (status, "")


def test_a_run_that_broke_off(tmp_path: Path) -> None:
    tool = project.ROOT / "tools" / "attack_table.py"
    words = [sys.executable, str(tool), f"ociruntime={tmp_path}/none.xml"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1
    assert "no report" in done.stdout
