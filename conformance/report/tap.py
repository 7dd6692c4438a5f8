"""Report in the Test Anything Protocol, version 14; known deviations are marked TODO."""

from __future__ import annotations

import json

from conformance.report.run import Run
from conformance.runner.outcome import SKIP


def dump(run: Run) -> str:
    """Return the report's text."""
    lines = ["TAP version 14", f"1..{len(run.outcomes)}"]
    for number, one in enumerate(run.outcomes, 1):
        mark = "not ok" if one.bad else "ok"
        name = f"{one.runtime} {one.case} ({' '.join(one.clauses)})"
        directive = ""
        if one.status == SKIP and not one.left:
            directive = f" # SKIP {_line(one.message)}"
        elif run.reason(one):
            directive = f" # TODO {_line(run.reason(one))}"
        lines.append(f"{mark} {number} - {_line(name)}{directive}")
        change = run.change(one)
        if one.bad or change:
            # A JSON string is a YAML scalar as well.
            lines += ["  ---", f"  message: {json.dumps(one.text)}"]
            lines += [f"  changed: {json.dumps(change)}"] if change else []
            lines += [f"  seconds: {one.seconds}", "  ..."]
    return "\n".join(lines) + "\n"


def _line(text: str) -> str:
    """Put the text on one line, without characters that would begin a directive."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("#", "\\#")
