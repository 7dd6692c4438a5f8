"""Print a table of attacks and whether each runtime withstands them.

    tools/attack_table.py ociruntime=REPORT.xml runc=REPORT.xml ...

Reads the JUnit reports that pytest writes for tests/attacks, one per runtime; each test is a row.
The exit status is 1 unless the first runtime withstands every attack that applies to it.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.test_summary import outcome

WITHSTOOD = "withstood"
LET_THROUGH = "let through"
NOT_APPLICABLE = "not applicable: the runtime has no such command"
NOT_RUN = "not run"

Column = dict[str, str]


def attack_name(case: ET.Element) -> str:
    """Return a row's name: ``test_root[link]`` of test_trust.py is "trust: root, link"."""
    module = case.get("classname", "").rpartition(".")[2].removeprefix("test_")
    name, _, parameters = case.get("name", "").removeprefix("test_").partition("[")
    words = re.sub("_+", " ", name).strip()
    values = f", {parameters.removesuffix(']').replace('-', ', ')}" if parameters else ""
    return f"{module.replace('_', ' ')}: {words}{values}"


def verdict(case: ET.Element) -> str:
    """Return the test's result as a verdict on its runtime."""
    kind, reason = outcome(case)
    if kind == "passed":
        return WITHSTOOD
    if kind in {"deviating", "failed"}:
        return LET_THROUGH
    if kind == "broken":
        # A canary fails after the test, and pytest calls that an error.
        return LET_THROUGH if "on teardown" in reason else "broken: see the report"
    if "has none; only" in reason:
        return NOT_APPLICABLE
    return f"skipped: {reason or 'no reason'}"


def column(report: Path) -> Column:
    """Return attack -> verdict for one report; the worst verdict counts if a test has two."""
    verdicts: Column = {}
    for case in ET.parse(report).iter("testcase"):
        name = attack_name(case)
        if verdicts.get(name, WITHSTOOD) == WITHSTOOD:
            verdicts[name] = verdict(case)
    return verdicts


def table(columns: dict[str, Column]) -> list[str]:
    """Return the lines of the table with counts at the end, then the notes."""
    names = list(dict.fromkeys(name for one in columns.values() for name in one))
    notes: list[str] = []
    rows = [["attack", *columns]]
    for name in names:
        verdicts = [one.get(name, NOT_RUN) for one in columns.values()]
        rows.append([name, *(shortened(verdict, notes) for verdict in verdicts)])
    counts = [
        f"{sum(verdict == WITHSTOOD for verdict in one.values())} withstood, "
        f"{sum(verdict == LET_THROUGH for verdict in one.values())} let through"
        for one in columns.values()
    ]
    rows.append([f"{len(names)} attacks", *counts])
    widths = [max(len(row[index]) for row in rows) for index in range(len(columns) + 1)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    rule = "-" * max(map(len, lines))
    below = [f"[{number}] {note}" for number, note in enumerate(notes, 1)]
    return [lines[0], rule, *lines[1:-1], rule, lines[-1], *below]


def shortened(verdict: str, notes: list[str]) -> str:
    """Return the verdict for a cell; replace its reason by the number of a note in ``notes``."""
    words, _, reason = verdict.partition(": ")
    if not reason:
        return words
    if reason not in notes:
        notes.append(reason)
    return f"{words} [{notes.index(reason) + 1}]"


def all_withstood(one: Column) -> bool:
    """Return whether the runtime withstood every attack that was tried, and any was tried."""
    tried = [found for found in one.values() if not found.startswith(("skipped", "not applicable"))]
    return bool(tried) and all(found == WITHSTOOD for found in tried)


def main() -> int:
    columns: dict[str, Column] = {}
    for word in sys.argv[1:]:
        name, _, path = word.partition("=")
        if not Path(path).exists():
            print(f"attack_table: {name}: read {path}: no report; was the test run aborted?")
            return 1
        columns[name] = column(Path(path))
    if not columns:
        print("usage: tools/attack_table.py NAME=REPORT.xml...", file=sys.stderr)
        return 2
    print("\n".join(table(columns)))
    return 0 if all_withstood(next(iter(columns.values()))) else 1


if __name__ == "__main__":
    sys.exit(main())
