"""Summarise a test run: numbers of passed, failed and skipped tests, and why they were skipped.

    tools/test_summary.py REPORT.xml...

Reads the JUnit reports that pytest writes, one for each part of the run. The exit status is 1 if a
report is missing, which means that its part was aborted.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

OUTCOMES = {"failure": "failed", "error": "broken", "skipped": "skipped"}


def outcome(case: ET.Element) -> tuple[str, str]:
    """Return (passed, failed, broken, skipped or deviating, reason or "") of a JUnit testcase.

    ``broken`` is an error in a fixture, ``deviating`` an expected failure.
    """
    for child in case:
        if child.tag == "skipped" and child.get("type") == "pytest.xfail":
            return "deviating", child.get("message", "")
        if child.tag in OUTCOMES:
            return OUTCOMES[child.tag], child.get("message", "")
    return "passed", ""


def summary(cases: list[ET.Element]) -> list[str]:
    """Return the lines of the summary."""
    outcomes = [outcome(case) for case in cases]
    counts = Counter(kind for kind, _ in outcomes)
    ran = len(outcomes) - counts["skipped"]
    words = [f"{counts[kind]} {kind}" for kind in ("passed", "failed", "broken", "deviating")]
    lines = [f"{ran} tests ran: {', '.join(words)}; {counts['skipped']} skipped"]
    for kind in ("skipped", "deviating"):
        reasons = Counter(reason or "no reason" for one, reason in outcomes if one == kind)
        lines += [f"  {count:4d} {kind}: {reason}" for reason, count in reasons.most_common()]
    for case, (kind, _) in zip(cases, outcomes, strict=True):
        if kind in ("failed", "broken"):
            lines.append(f"  {kind}: {case.get('classname')}::{case.get('name')}")
    return lines


def main() -> int:
    reports = [Path(name) for name in sys.argv[1:]]
    missing = [report for report in reports if not report.exists()]
    cases = [
        case
        for report in reports
        if report not in missing
        for case in ET.parse(report).iter("testcase")
    ]
    print()
    for report in missing:
        print(f"the test run was aborted: no report {report}")
    print("\n".join(summary(cases)))
    return 1 if missing or not reports else 0


if __name__ == "__main__":
    sys.exit(main())
