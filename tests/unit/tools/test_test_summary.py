"""The summary of a run: one report a part, and none may be missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import test_summary as program

SKIP = '<skipped type="pytest.skip" message="needs root"/>'


def report(path: Path, *cases: str) -> str:
    body = "".join(f'<testcase classname="c" name="n">{inner}</testcase>' for inner in cases)
    path.write_text(f"<testsuites><testsuite>{body}</testsuite></testsuites>")
    return str(path)


def summarise(monkeypatch: pytest.MonkeyPatch, *reports: str) -> int:
    monkeypatch.setattr("sys.argv", ["test_summary.py", *reports])
    return program.main()


def test_parts_are_counted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = report(tmp_path / "a.xml", "", SKIP), report(tmp_path / "b.xml", "", "", SKIP)
    assert summarise(monkeypatch, *parts) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("3 tests ran: 3 passed")
    assert lines[1].endswith("2 skipped")
    assert "2 skipped: needs root" in [line.strip() for line in lines]


def test_a_missing_part_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "b.xml")
    assert summarise(monkeypatch, report(tmp_path / "a.xml", ""), missing) == 1
    printed = capsys.readouterr().out
    assert f"no report {missing}" in printed
    assert "1 tests ran: 1 passed" in printed
