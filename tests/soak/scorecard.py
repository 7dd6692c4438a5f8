"""The scorecard of reliability: what is measured, how often, and the results (pure).

A row without measurements says so.  A row is met if ociruntime was measured at least as often as
the row requires, without a deviation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.fuzz import table as targets

OWN = "ociruntime"
RUNTIMES = (OWN, "runc", "crun")
NOT_MEASURED = "not measured"
# Scenario, part, runs, not reached, deviations.
SWEEP_ROW = re.compile(r"^\| [\w-]+ \| (kill|kill-all|fail) \| (\d+) \| \d+ \| (\d+) \|$", re.M)


@dataclass(frozen=True)
class Score:
    """How often something was tried, and how often it failed; ``numbers`` has details.

    A ``share`` is a percentage, which has no failures.
    """

    count: int
    deviations: int
    numbers: str = ""
    share: bool = False

    def __str__(self) -> str:
        plural = "" if self.deviations == 1 else "s"
        text = f"{self.count}: {self.deviations or 'no'} deviation{plural}"
        text = f"{self.count} %" if self.share else text
        return f"{text}; {self.numbers}" if self.numbers else text

    def outdates(self, recorded: Score) -> bool:
        """Return whether it replaces an older score: it is at least as large, or shows a bug."""
        return self.share or self.count >= recorded.count or self.deviations > 0


@dataclass(frozen=True)
class Sources:
    """All results: of ``./dev sweep`` by part, of ``./dev soak``, of shortages by runtime, what
    ``./dev score`` has run itself, by row and runtime, of ``./dev fuzz`` by target (runs and
    findings), of ``./dev bundles``, of the suite by the set of calls that were refused, and of
    ``./dev coverage``.
    """

    sweep: Mapping[str, list[dict[str, Any]]]
    swept: Mapping[str, tuple[int, int]]  # part: runs and deviations in the page's table
    soak: Mapping[str, Mapping[str, Mapping[str, Any]]]
    starvation: Mapping[str, list[dict[str, Any]]]
    own_runs: Mapping[str, Mapping[str, Mapping[str, Any]]]
    fuzzed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    bundles: Sequence[Mapping[str, Any]] = ()
    old_kernels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    coverage: Mapping[str, Any] = field(default_factory=dict)


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
    """Measure many containers: alive, and created concurrently."""
    alive = sources.soak.get("alive", {}).get(runtime)
    burst = sources.soak.get("burst", {}).get(runtime)
    if not alive or not burst:
        return None
    numbers = f"list {alive['list']:.0f} ms; {burst['count']} creates at once: "
    numbers += f"{burst['per_second']:.0f} per second, p99 {burst['p99']:.0f} ms"
    problems = len(alive["problems"]) + len(burst["problems"]) + burst["failed"]
    return Score(alive["alive"], problems, numbers)


def starved(sources: Sources, runtime: str) -> Score | None:
    """Measure commands that lack a resource."""
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


def fuzzed(targets: Sequence[str], most: int) -> Measure:
    """Return the measure of the fuzz targets among ``targets``: the ``most`` with the most runs."""

    def measure(sources: Sources, runtime: str) -> Score | None:
        known = [name for name in targets if name in sources.fuzzed]
        known = sorted(known, key=lambda name: -sources.fuzzed[name][0])[:most]
        if runtime != OWN or not known:
            return None
        numbers = ", ".join(f"{name} {sources.fuzzed[name][0]}" for name in known)
        runs = sum(sources.fuzzed[name][0] for name in known)
        return Score(runs, sum(sources.fuzzed[name][1] for name in known), numbers)

    return measure


def bundles(sources: Sources, runtime: str) -> Score | None:
    """Measure the made-up bundles that were run in a virtual machine."""
    if runtime != OWN or not sources.bundles:
        return None
    totals = {name: sum(one[name] for one in sources.bundles) for name in ("tried", "created")}
    numbers = f"{totals['created']} of them became containers"
    return Score(totals["tried"], sum(one["failed"] for one in sources.bundles), numbers)


def old_kernels(sources: Sources, runtime: str) -> Score | None:
    """Measure the runs of the suite in which system calls were refused."""
    if runtime != OWN or not sources.old_kernels:
        return None
    runs = sources.old_kernels
    numbers = ", ".join(f"{name} {one['count']} tests" for name, one in runs.items())
    return Score(len(runs), sum(one["deviations"] for one in sources.old_kernels.values()), numbers)


def _folder(tests: Mapping[str, Any]) -> str:
    part = "" if tests["whole"] else " (not to its end)"
    return f"{tests['folder']}{part}"


def covered(sources: Sources, runtime: str) -> Score | None:
    """Return the percentage of branches that tests reach, rounded down."""
    if runtime != OWN or not sources.coverage:
        return None
    count = sources.coverage["all"]
    tests = ", ".join(dict.fromkeys(_folder(one) for one in sources.coverage["tests"]))
    numbers = f"{count['branches_reached']} of {count['branches']}, by the tests of {tests}"
    percent = 100 * count["branches_reached"] // count["branches"]
    return Score(percent, 0, numbers, share=True)


@dataclass(frozen=True)
class Row:
    """A line of the scorecard; ``gate`` is how many it demands."""

    id: str
    metric: str
    gate: int
    measure: Measure

    def is_met(self, score: Score | None) -> bool:
        """Return whether ociruntime's score meets the row's requirement."""
        return bool(score and score.count >= self.gate and not score.deviations)


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
    Row("F1", "fuzzing of the Python side, runs of ten targets", 500_000,
        fuzzed(tuple(targets.PYTHON), 10)),
    Row("F2", "fuzzing of plan reader and path walk, runs", 10**8,
        fuzzed(("plan", "walk"), 2)),
    Row("F3", "random bundles run in a virtual machine", 10**4, bundles),
    Row("S4", "runs of the suite of executor and runtime where calls are missing", 14, old_kernels),
    Row("Q1", "branches covered by tests, percent", 90, covered),
)  # fmt: skip


def of_page(page: str) -> dict[str, tuple[int, int]]:
    """Return part -> (runs, deviations) from the table that ``./dev sweep`` writes to a page."""
    totals: dict[str, tuple[int, int]] = {}
    for part, runs, bad in SWEEP_ROW.findall(page):
        before = totals.get(part, (0, 0))
        totals[part] = (before[0] + int(runs), before[1] + int(bad))
    return totals


Scores = dict[str, dict[str, Score]]  # row: runtime: score


def scores(sources: Sources, recorded: Scores) -> Scores:
    """Return the scores of the sources, and of what they do not have those recorded before."""
    found: Scores = {}
    for row in ROWS:
        for runtime in RUNTIMES:
            new, old = row.measure(sources, runtime), recorded.get(row.id, {}).get(runtime)
            score = old if new is None or (old and not new.outdates(old)) else new
            if score:
                found.setdefault(row.id, {})[runtime] = score
    return found


def to_json(found: Scores) -> dict[str, Any]:
    """Return scores as a JSON document."""
    return {
        row: {runtime: asdict(score) for runtime, score in each.items()}
        for row, each in found.items()
    }


def from_json(document: Mapping[str, Any]) -> Scores:
    """Return the scores of a JSON document of ``to_json``."""
    return {
        row: {runtime: Score(**score) for runtime, score in each.items()}
        for row, each in document.items()
    }


def table(found: Scores) -> str:
    """Return the scorecard as a Markdown table."""
    lines = [
        f"| | measured | gate | {' | '.join(RUNTIMES)} | met |",
        f"|---|---|---|{'---|' * len(RUNTIMES)}---|",
    ]
    for row in ROWS:
        each = [found.get(row.id, {}).get(runtime) for runtime in RUNTIMES]
        shown = [str(score) if score else NOT_MEASURED for score in each]
        met = "yes" if row.is_met(each[0]) else "no"
        lines.append(f"| {row.id} | {row.metric} | {row.gate} | {' | '.join(shown)} | {met} |")
    return "\n".join(lines)
