"""Choosing lines of a table of ps(1)."""

from __future__ import annotations

import pytest

from ociruntime.base.errors import RuntimeFailure
from ociruntime.runtime.lifecycle.ps import select

TABLE = """\
UID          PID    PPID CMD
root           1       0 init
root          12       1 a PID 13
root         123       1 b

"""


def test_lines_of_the_pids() -> None:
    lines = TABLE.splitlines()
    assert select(TABLE, [12, 999]) == [lines[0], lines[2]]
    assert select(TABLE, []) == [lines[0]]


def test_threads_go_with_their_process() -> None:
    table = "PID SPID\n1 -\n- 1\n2 -\n- 2\n- 3\n"
    assert select(table, [2]) == ["PID SPID", "2 -", "- 2", "- 3"]


def test_names_of_processes_end_no_line() -> None:
    name = "x\u20281 forged\x0b1 forged\x851 forged"
    assert select(f"PID CMD\n1 {name}\n2 {name}\n", [1]) == ["PID CMD", f"1 {name}"]


@pytest.mark.parametrize("table", ["", "USER CMD\nroot init\n", "pid\n1\n"])
def test_no_column_of_pids(table: str) -> None:
    with pytest.raises(RuntimeFailure, match="PID field"):
        select(table, [1])
