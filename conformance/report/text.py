"""Plain text: progress while the cases run, and the summary at the end."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from conformance.case import Case
from conformance.clauses import registry
from conformance.driver import Runtime
from conformance.runner.outcome import FAIL, PASS, SKIP, UNTESTED, Outcome, judge

MARKS = {"pass": "ok", "fail": "FAIL", "skip": "skip", "error": "ERROR"}
COLOURS = {"pass": "32", "fail": "31", "skip": "33", "error": "35"}


class Progress:
    """One line for each outcome that matters, and on a terminal a moving last line."""

    def __init__(self, total: int, verbose: bool, stream: TextIO = sys.stderr) -> None:
        self.total = total
        self.verbose = verbose
        self.stream = stream
        self.terminal = stream.isatty()
        self.done = 0
        self.counts: Counter[str] = Counter()
        self.running: list[str] = []

    def begun(self, case: Case, runtime: Runtime) -> None:
        """A case starts."""
        self.running.append(f"{runtime.label} {case.path}")
        self._status()

    def ended(self, outcome: Outcome) -> None:
        """A case is done."""
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
        """``FAIL  runc 1.1.5  runtime::kill_reaches  (RT-KILL-04)`` and the message."""
        mark = f"{MARKS[shown]:5}"
        if self.terminal:
            mark = f"\033[{COLOURS[shown]}m{mark}\033[0m"
        lines = [f"{mark} {outcome.runtime}  {outcome.case}  ({' '.join(outcome.clauses)})"]
        lines += [f"      {line}" for line in outcome.text.splitlines()]
        return "\n".join(lines)

    def finish(self) -> None:
        """Remove the moving line."""
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


def summary(outcomes: Sequence[Outcome], runtimes: Sequence[Runtime]) -> str:
    """For each runtime the numbers of cases and of clauses, and the clauses that fail."""
    lines = []
    for runtime in runtimes:
        own = [one for one in outcomes if one.runtime == runtime.label]
        cases = Counter(one.status for one in own)
        verdicts = {id: judge(id, own) for id in registry()}
        clauses = Counter(verdict.status for verdict in verdicts.values())
        binding = Counter(v.status for id, v in verdicts.items() if registry()[id].binding)
        lines.append(f"{runtime.label}")
        lines.append(f"  cases:   {_counted(cases)}")
        lines.append(f"  clauses: {_counted(clauses)}")
        lines.append(f"  of them MUST, MUST NOT, REQUIRED: {_counted(binding)}")
        failing = [id for id, verdict in verdicts.items() if verdict.status == FAIL]
        if failing:
            lines.append(f"  failing: {' '.join(failing)}")
    return "\n".join(lines)


def _counted(counts: Counter[str]) -> str:
    order = (PASS, FAIL, "error", SKIP, UNTESTED)
    return ", ".join(f"{counts[what]} {what}" for what in order if counts[what]) or "none"
