"""Report as plain text: progress while the cases run, and the summary at the end."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TextIO

from conformance.case import Case
from conformance.clauses import registry
from conformance.driver import Runtime
from conformance.report.run import Run
from conformance.runner.outcome import ERROR, FAIL, HIDDEN, PASS, SKIP, UNTESTED, Outcome

MARKS = {"pass": "ok", "fail": "FAIL", "skip": "skip", "error": "ERROR"}
COLOURS = {"pass": "32", "fail": "31", "skip": "33", "error": "35"}


class Progress:
    """Progress output: a line for each failure (``verbose``: for each case).

    On a terminal, a last line shows the counts and the current case.
    """

    def __init__(self, total: int, verbose: bool, stream: TextIO = sys.stderr) -> None:
        self.total = total
        self.verbose = verbose
        self.stream = stream
        self.terminal = stream.isatty()
        self.done = 0
        self.counts: Counter[str] = Counter()
        self.running: list[str] = []

    def begun(self, case: Case, runtime: Runtime) -> None:
        """Show that a case has started."""
        self.running.append(f"{runtime.label} {case.path}")
        self._status()

    def ended(self, outcome: Outcome) -> None:
        """Show the outcome of a case."""
        self.done += 1
        name = f"{outcome.runtime} {outcome.case}"
        if name in self.running:
            self.running.remove(name)
        shown = FAIL if outcome.left and outcome.status == PASS else outcome.status
        self.counts[shown] += 1
        if self.verbose or outcome.bad:
            self._clear()
            self.stream.write(self.line(outcome, shown) + "\n")
        self._status()

    def line(self, outcome: Outcome, shown: str) -> str:
        """Return a line such as "FAIL  runc 1.1.5  runtime::kill  (RT-KILL-04)" and the message."""
        mark = f"{MARKS[shown]:5}"
        if self.terminal:
            mark = f"\033[{COLOURS[shown]}m{mark}\033[0m"
        lines = [f"{mark} {outcome.runtime}  {outcome.case}  ({' '.join(outcome.clauses)})"]
        lines += [f"      {line}" for line in outcome.text.splitlines()]
        if shown in (FAIL, ERROR):
            lines += clause_lines(outcome)
        return "\n".join(lines)

    def finish(self) -> None:
        """Remove the progress line."""
        self._clear()

    def _clear(self) -> None:
        if self.terminal:
            self.stream.write("\r\033[K")

    def _status(self) -> None:
        if not self.terminal:
            return
        counts = "  ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        last = self.running[-1] if self.running else ""
        self.stream.write(f"\r\033[K[{self.done}/{self.total}]  {counts}  {last}"[:110])
        self.stream.flush()


def clause_lines(outcome: Outcome) -> list[str]:
    """What the outcome's clauses say, with their levels: so that readers need not know the ids."""
    clauses = [registry()[id] for id in outcome.clauses]
    return [f"      {one.level}: {one.text} ({one.source})" for one in clauses]


def dump(run: Run) -> str:
    """Return the report: a line for each outcome, then the summary."""
    lines = []
    for one in run.outcomes:
        shown = FAIL if one.left and one.status == PASS else one.status
        lines.append(f"{MARKS[shown]:5} {one.runtime}  {one.case}  ({' '.join(one.clauses)})")
        lines += [f"      {line}" for line in one.text.splitlines()]
        if shown in (FAIL, ERROR):
            lines += clause_lines(one)
        lines += [f"      changed: {run.change(one)}"] if run.change(one) else []
    return "\n".join([*lines, summary(run), ""])


def summary(run: Run) -> str:
    """Return the summary: for each runtime the counts, the failed clauses, and changes."""
    lines = []
    for label, verdicts in run.verdicts.items():
        own = run.of(label)
        lines.append(label)
        lines.append(f"  cases:   {_counted(Counter(one.status for one in own))}")
        lines.append(f"  clauses: {_counted(run.counts(label))}")
        lines.append(f"  of them MUST, MUST NOT, REQUIRED: {_counted(run.counts(label, True))}")
        failing = [id for id, verdict in verdicts.items() if verdict.status == FAIL]
        if failing:
            lines.append(f"  failing: {' '.join(failing)}")
        if label in run.known:
            changes = [(case, how) for (name, case), how in run.changed.items() if name == label]
            expected = sum(1 for one in own if run.reason(one))
            lines.append(f"  known deviations: {expected} seen, {len(changes)} changes")
            lines += [f"    changed: {case} {how}" for case, how in changes]
        elif label in run.related:
            relative, known = run.related[label]
            shared = run.shared(label)
            bad = sum(one.bad for one in own)
            lines.append(f"  no known deviations of this version; the nearest is {relative}")
            lines.append(f"  known deviations of {relative}: {len(shared)} of {bad} failures")
            lines += [f"    {one.case}: {known[one.case].reason}" for one in shared]
    return "\n".join(lines)


def _counted(counts: Counter[str]) -> str:
    order = (PASS, FAIL, ERROR, SKIP, UNTESTED, HIDDEN)
    return ", ".join(f"{counts[what]} {what}" for what in order if counts[what]) or "none"
