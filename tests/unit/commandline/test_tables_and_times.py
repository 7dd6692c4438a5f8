"""Tables, times and lines of output."""

from __future__ import annotations

import pytest

from ociruntime.commandline.output import write_lines
from ociruntime.commandline.tables_and_times import ago, date, tabbed


def test_columns_by_tabs() -> None:
    rows = [["UUID", "APP", "STATE"], ["12345678", "a", "x"], ["", "", "y"]]
    assert tabbed(rows) == "UUID\t\tAPP\tSTATE\n12345678\ta\tx\n\t\t\ty\n"
    assert tabbed([]) == ""


@pytest.mark.parametrize(
    ("passed", "text"),
    [(0, "now"), (1, "1 second ago"), (125, "2 minutes ago"), (7200, "2 hours ago"),
     (90000, "1 day ago"), (40000000, "1 year ago"), (-5, "now")],
)  # fmt: skip
def test_ago(passed: int, text: str) -> None:
    assert ago(1000, 1000 + passed) == text


def test_no_time() -> None:
    assert (ago(None), date(None)) == ("", "")


def test_cells_and_lines_are_escaped(capfd: pytest.CaptureFixture[str]) -> None:
    rows = tabbed([["A", "B"], ["a\n\tb", "\x1b[2J\u202e"]])
    assert rows == "A\tB\na\\n\\tb\t\\x1b[2J\\u202e\n"
    write_lines(["a=\n\udcff", "b"])
    assert capfd.readouterr().out == "a=\\n\\udcff\nb\n"
