"""Write docs/spec-coverage.md from the conformance kit's JSON reports of ociruntime.

    tools/spec_coverage.py FILE REPORT...

The page lists each clause of the specification with its status on all hosts and the cases that
check it. Clauses that no host can check have tests of this project, listed in spec_tests.toml.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from conformance.clauses import Clause, registry  # noqa: E402
from conformance.deviations import plain  # noqa: E402
from conformance.host import KINDS  # noqa: E402
from conformance.report import document  # noqa: E402
from conformance.report.run import Run  # noqa: E402
from conformance.runner.outcome import (  # noqa: E402
    ERROR,
    FAIL,
    HIDDEN,
    PASS,
    SKIP,
    Outcome,
    Verdict,
)

TESTS = ROOT / "tools" / "spec_tests.toml"
# Prefix of the reason of a known deviation that is intended.
DECIDED = "deviation: "
MET, TESTED, OTHERWISE, FAILED = "met", "tested apart", "decided otherwise", "failed"
UNSEEN, UNSHOWN = "not observable", "not shown"
MEANINGS = {
    MET: "a case passed on one of the hosts, and none failed on any",
    TESTED: "no host has what it needs; the named tests of ociruntime show what they can",
    OTHERWISE: "ociruntime does something else on purpose; the reason is given",
    FAILED: "a case failed; the reason is given, and the host",
    UNSEEN: "nothing of it can be seen from outside; the reason is given",
    UNSHOWN: "no host could show it; the reason is given",
}
LINKS = {OTHERWISE: f"[{OTHERWISE}](spec-decisions.md)"}
CASES_SHOWN = 3
INTRODUCTION = """\
# Coverage of the specification

<!-- written by `./dev conformance` from runs of the conformance kit -->

Every clause of runtime-spec 1.3 that concerns a Linux runtime, as the
[conformance kit](../conformance/README.md) sees {label}. What the clauses mean
exactly is in the [specification]({base}). `./dev conformance`
also writes `docs/conformance.html`, which compares other runtimes.
"""
BASE = "https://github.com/opencontainers/runtime-spec/tree/v1.3.0"


@dataclass(frozen=True)
class Row:
    """A clause's status (a key of MEANINGS), the reason, and the cases or tests that check it."""

    state: str
    why: str = ""
    shown_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Apart:
    """Tests (pytest's names, without parameters) of a clause; ``why`` no host can check it."""

    why: str
    tests: tuple[str, ...]


def tested_apart() -> dict[str, Apart]:
    """Return clause id -> tests for the clauses that no host can check."""
    tables = tomllib.loads(TESTS.read_text(encoding="utf-8"))
    return {id: Apart(one["why"], tuple(one["tests"])) for id, one in tables.items()}


def host(run: Run) -> str:
    """Return the description of a run's kind of host, such as "cgroup v1"."""
    return KINDS[run.host["kind"]]


def own(run: Run) -> list[Outcome]:
    """Return the outcomes of the run's first runtime, which the page is about."""
    return run.of(run.runtimes[0].label)


def judged(clause: Clause, runs: Sequence[Run], apart: Apart | None) -> Row:
    """Return a clause's row, from its verdicts on all hosts."""
    verdicts = [(host(run), run.verdicts[run.runtimes[0].label][clause.id]) for run in runs]
    states = {one.status for _, one in verdicts}
    if HIDDEN in states:
        return Row(UNSEEN, clause.reason)
    shown_by = tuple(_shown_by(clause, runs))
    if states & {FAIL, ERROR}:
        reasons = list(dict.fromkeys(_failures(clause, runs)))
        if all(reason.startswith(DECIDED) for _, reason in reasons):
            words = dict.fromkeys(reason.removeprefix(DECIDED) for _, reason in reasons)
            return Row(OTHERWISE, "; ".join(words), shown_by)
        return Row(FAILED, "; ".join(f"{reason} ({where})" for where, reason in reasons), shown_by)
    if PASS in states:
        return Row(MET, "", shown_by)
    if apart:
        return Row(TESTED, apart.why, tuple(f"`{test}`" for test in apart.tests))
    return Row(UNSHOWN, "; ".join(dict.fromkeys(_obstacles(verdicts))), shown_by)


def _concerned(clause: Clause, run: Run) -> Iterator[Outcome]:
    for one in own(run):
        if clause.id in one.clauses or (one.left and one.blamed == clause.id):
            yield one


def _failures(clause: Clause, runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    """Yield (host, reason) for each failure of a clause's cases."""
    for run in runs:
        for one in _concerned(clause, run):
            if one.bad:
                yield host(run), run.reason(one) or plain(one.text)


def _obstacles(verdicts: Iterable[tuple[str, Verdict]]) -> Iterator[str]:
    for where, verdict in verdicts:
        for message in verdict.messages if verdict.status == SKIP else ():
            yield f"{plain(message.partition(': ')[2])} ({where})"


def _shown_by(clause: Clause, runs: Sequence[Run]) -> Iterator[str]:
    """Yield the cases that ran on any host, with that host unless it is the first."""
    hosts: dict[str, str] = {}
    for run in runs:
        for one in _concerned(clause, run):
            if one.status != SKIP:
                hosts.setdefault(one.case, host(run))
    first = host(runs[0])
    for case, where in sorted(hosts.items(), key=lambda pair: pair[1] != first):
        yield f"`{case}`" + ("" if where == first else f" ({where})")


def page(runs: Sequence[Run]) -> str:
    """Return the text of docs/spec-coverage.md; cases of the first run appear without host."""
    apart = tested_apart()
    rows = {id: judged(one, runs, apart.get(id)) for id, one in registry().items()}
    lines = [INTRODUCTION.format(label=runs[0].runtimes[0].label, base=BASE)]
    lines += _hosts(runs)
    lines += _counts(rows)
    for source, members in groupby(registry().values(), lambda one: one.source):
        lines += ["", f"## {source}", "", "| clause | level | state | shown by |"]
        lines.append("|---|---|---|---|")
        lines += [_line(clause, rows[clause.id]) for clause in members]
    return "\n".join(lines) + "\n"


def _hosts(runs: Iterable[Run]) -> Iterator[str]:
    yield "The hosts; where a case is shown without one, it is the first:"
    yield ""
    for run in runs:
        cases = Counter(one.status for one in own(run))
        seen = f"{cases[PASS]} cases passed, {cases[FAIL] + cases[ERROR]} failed"
        yield f"* {host(run)}: Linux {run.host['kernel']}; {seen}"
    yield ""


def _counts(rows: dict[str, Row]) -> Iterator[str]:
    everything = Counter(one.state for one in rows.values())
    binding = Counter(one.state for id, one in rows.items() if registry()[id].binding)
    yield "| state | all | MUST, MUST NOT, REQUIRED | meaning |"
    yield "|---|---|---|---|"
    for state, meaning in MEANINGS.items():
        if everything[state]:
            yield f"| {state} | {everything[state]} | {binding[state]} | {meaning} |"


def _line(clause: Clause, row: Row) -> str:
    shown = row.shown_by[:CASES_SHOWN]
    if len(row.shown_by) > CASES_SHOWN:
        shown += (f"and {len(row.shown_by) - CASES_SHOWN} more",)
    state = LINKS.get(row.state, row.state) + (f": {row.why}" if row.why else "")
    cells = (f"{clause.id}: {clause.text}", clause.level, state, ", ".join(shown))
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def main() -> None:
    runs = [document.load(Path(word)) for word in sys.argv[2:]]
    order = list(KINDS)
    runs.sort(key=lambda run: order.index(run.host["kind"]))
    Path(sys.argv[1]).write_text(page(runs), encoding="utf-8")


if __name__ == "__main__":
    main()
