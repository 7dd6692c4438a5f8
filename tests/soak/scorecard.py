"""The scorecard of reliability: what is measured, how often, and what came out (pure).

A row that nobody has measured says so.  A row is met if ociruntime was measured at least as often
as the row demands, without a deviation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

OWN = "ociruntime"
RUNTIMES = (OWN, "runc", "crun")
NOT_MEASURED = "not measured"
# Scenario, part, runs, not reached, deviations.
SWEEP_ROW = re.compile(r"^\| [\w-]+ \| (kill|kill-all|fail) \| (\d+) \| \d+ \| (\d+) \|$", re.M)


@dataclass(frozen=True)
class Score:
    """How often something was tried, and how often it went wrong; ``numbers`` says more."""

    count: int
    deviations: int
    numbers: str = ""

    def __str__(self) -> str:
        plural = "" if self.deviations == 1 else "s"
        text = f"{self.count}: {self.deviations or 'no'} deviation{plural}"
        return f"{text}; {self.numbers}" if self.numbers else text


@dataclass(frozen=True)
class Sources:
    """All results: of ``./dev sweep`` by part, of ``./dev soak``, of shortages by runtime, and what
    ``./dev score`` has run itself, by row and runtime.
    """

    sweep: Mapping[str, list[dict[str, Any]]]
    swept: Mapping[str, tuple[int, int]]  # part: runs and deviations in the page's table
    soak: Mapping[str, Mapping[str, Mapping[str, Any]]]
    starvation: Mapping[str, list[dict[str, Any]]]
    own_runs: Mapping[str, Mapping[str, Mapping[str, Any]]]


Measure = Callable[[Sources, str], Score | None]


def swept(part: str, others: bool = False) -> Measure:
    """Return the measure of a part of the sweep; ``others``: processes other than the command."""

    def measure(sources: Sources, runtime: str) -> Score | None:
        found = [
            one
            for one in sources.sweep.get(part, [])
            if one["boundary"] and (not others or one["action"].split()[1] == "caller")
        ]
        bad = sum(bool(one["problems"]) for one in found)
        count, written = (0, 0) if others else sources.swept.get(part, (0, 0))
        if runtime != OWN or not (found or count):
            return None
        return Score(len(found), bad) if len(found) >= count else Score(count, written)

    return measure


def soaked(part: str, count: str, show: Callable[[Mapping[str, Any]], str]) -> Measure:
    """Return the measure of a part of the soak, whose number ``count`` is the gate's."""

    def measure(sources: Sources, runtime: str) -> Score | None:
        one = sources.soak.get(part, {}).get(runtime)
        return Score(one[count], len(one["problems"]), show(one)) if one else None

    return measure


def many(sources: Sources, runtime: str) -> Score | None:
    """Measure many containers: alive, and created at once."""
    alive = sources.soak.get("alive", {}).get(runtime)
    burst = sources.soak.get("burst", {}).get(runtime)
    if not alive or not burst:
        return None
    numbers = f"list {alive['list']:.0f} ms; {burst['count']} creates at once: "
    numbers += f"{burst['per_second']:.0f} per second, p99 {burst['p99']:.0f} ms"
    problems = len(alive["problems"]) + len(burst["problems"]) + burst["failed"]
    return Score(alive["alive"], problems, numbers)


def starved(sources: Sources, runtime: str) -> Score | None:
    """Measure commands that lack something."""
    found = sources.starvation.get(runtime, [])
    if not found:
        return None
    return Score(len(found), sum(bool(one["problems"]) for one in found))


def own_run(row: str, note: str = "") -> Measure:
    """Return the measure of what ``./dev score`` has run for a row."""

    def measure(sources: Sources, runtime: str) -> Score | None:
        one = sources.own_runs.get(row, {}).get(runtime)
        return Score(one["count"], one["deviations"], one.get("numbers", note)) if one else None

    return measure


def unmeasured(sources: Sources, runtime: str) -> Score | None:
    """Return nothing: there is no harness for this yet."""
    return None


@dataclass(frozen=True)
class Row:
    """A line of the scorecard; ``gate`` is how many it demands."""

    id: str
    metric: str
    gate: int
    measure: Measure
    short_of: str = ""  # why even enough of them do not meet it

    def is_met(self, score: Score | None) -> bool:
        """Return whether ociruntime's score is what the row demands."""
        return bool(
            score and score.count >= self.gate and not score.deviations and not self.short_of
        )


ROWS = (
    Row("R1", "SIGKILL to the command or its caller at each system call", 1500, swept("kill")),
    Row("R2", "SIGKILL to another process of the command (the executor)", 300,
        swept("kill", others=True)),
    Row("R3", "one system call fails", 3000, swept("fail")),
    Row("R4", "commands without descriptors, processes, memory, room", 200, starved),
    Row("R5", "invalid configurations", 500, own_run("R5")),
    Row("R6", "containers alive at once", 500, many),
    Row("R7", "seconds in which 8 clients fight over one id", 60,
        soaked("contention", "seconds",
               lambda one: f"{one['operations']} commands, {one['hangs']} hang")),
    Row("R8", "reuses of a dead init's pid", 1000,
        soaked("pid-reuse", "count", lambda one: f"{one['during']} of them during a command")),
    Row("R9", "whole lives in a row", 20_000,
        soaked("lives", "count", lambda one: f"{one['in_a_row']} in one session")),
    Row("R10", "frozen containers, shared pid namespaces: tests", 12, own_run("R10")),
    Row("R11", "signals, terminals, hooks: tests", 40, own_run("R11")),
    Row("F1", "fuzzing of the Python side, runs of ten targets", 500_000, unmeasured),
    Row("F2", "fuzzing of plan reader and path walk, runs", 10**8, unmeasured),
    Row("F3", "random bundles run in a virtual machine", 10**4, unmeasured),
    Row("S4", "commands on kernels that lack calls: tests", 18, own_run("S4"),
        "not the whole suite"),
    Row("Q1", "branches covered by tests, percent", 90, unmeasured),
)  # fmt: skip


def of_page(page: str) -> dict[str, tuple[int, int]]:
    """Return part -> (runs, deviations) from the table that ``./dev sweep`` writes to a page."""
    totals: dict[str, tuple[int, int]] = {}
    for part, runs, bad in SWEEP_ROW.findall(page):
        before = totals.get(part, (0, 0))
        totals[part] = (before[0] + int(runs), before[1] + int(bad))
    return totals


def table(sources: Sources) -> str:
    """Return the scorecard as a Markdown table."""
    lines = [
        f"| | measured | gate | {' | '.join(RUNTIMES)} | met |",
        f"|---|---|---|{'---|' * len(RUNTIMES)}---|",
    ]
    for row in ROWS:
        scores = [row.measure(sources, runtime) for runtime in RUNTIMES]
        shown = [str(score) if score else NOT_MEASURED for score in scores]
        met = "yes" if row.is_met(scores[0]) else "no"
        if row.short_of and scores[0]:
            met = f"no: {row.short_of}"
        lines.append(f"| {row.id} | {row.metric} | {row.gate} | {' | '.join(shown)} | {met} |")
    return "\n".join(lines)
