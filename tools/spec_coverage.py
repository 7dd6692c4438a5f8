"""docs/spec-coverage.md from the conformance kit's JSON result of ociruntime.

    tools/spec_coverage.py RESULT.json [FILE]

Each clause of the specification with its state and the cases that show it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from conformance.clauses import Clause, registry  # noqa: E402
from conformance.deviations import plain  # noqa: E402
from conformance.report import document  # noqa: E402
from conformance.report.run import Run  # noqa: E402
from conformance.runner.outcome import (  # noqa: E402
    ERROR,
    FAIL,
    HIDDEN,
    PASS,
    SKIP,
    UNTESTED,
    Verdict,
)

PAGE = ROOT / "docs" / "spec-coverage.md"
WORDS = {
    PASS: "met",
    FAIL: "failed",
    ERROR: "failed",
    HIDDEN: "not observable",
    SKIP: "skipped here",
    UNTESTED: "no case",
}
CASES_SHOWN = 3
INTRODUCTION = """\
# Coverage of the specification

<!-- written by `./dev conformance` from a run of the conformance kit -->

Every clause of runtime-spec 1.3 that concerns a Linux runtime, as the
[conformance kit](../conformance/README.md) sees {label}. What the clauses mean
exactly is in the [specification]({base}); other runtimes are compared in
[conformance.html](conformance.html).

* **met**: all cases that this host can show pass;
* **failed**: at least one case does not pass; the reason is given;
* **not observable**: nothing of it can be seen from outside; the reason is given;
* **skipped here**: the host that wrote this page could not show it.
"""
BASE = "https://github.com/opencontainers/runtime-spec/tree/v1.3.0"


def page(run: Run) -> str:
    """The text for the first runtime of the run."""
    label = run.runtimes[0].label
    verdicts = run.verdicts[label]
    lines = [INTRODUCTION.format(label=label, base=BASE)]
    lines += ["| | all | MUST, MUST NOT, REQUIRED |", "|---|---|---|"]
    everything = Counter(WORDS[one.status] for one in verdicts.values())
    binding = Counter(WORDS[one.status] for id, one in verdicts.items() if registry()[id].binding)
    lines += [
        f"| {word} | {everything[word]} | {binding[word]} |"
        for word in dict.fromkeys(WORDS.values())
        if everything[word]
    ]
    for source, members in groupby(registry().values(), lambda one: one.source):
        lines += [
            "",
            f"## {source}",
            "",
            "| clause | level | state | shown by |",
            "|---|---|---|---|",
        ]
        lines += [_row(run, clause, verdicts[clause.id]) for clause in members]
    return "\n".join(lines) + "\n"


def _row(run: Run, clause: Clause, verdict: Verdict) -> str:
    cases = [f"`{case}`" for case in verdict.cases[:CASES_SHOWN]]
    if len(verdict.cases) > CASES_SHOWN:
        cases.append(f"and {len(verdict.cases) - CASES_SHOWN} more")
    why = "; ".join(dict.fromkeys(_reasons(run, clause, verdict)))
    state = WORDS[verdict.status] + (f": {why}" if why else "")
    cells = (f"{clause.id}: {clause.text}", clause.level, state, ", ".join(cases))
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _reasons(run: Run, clause: Clause, verdict: Verdict) -> Iterator[str]:
    if verdict.status == HIDDEN:
        yield clause.reason
    elif verdict.status in {FAIL, ERROR}:
        for one in run.of(run.runtimes[0].label):
            concerned = clause.id in one.clauses or (one.left and one.blamed == clause.id)
            if concerned and one.bad:
                yield run.reason(one) or plain(one.text)
    elif verdict.status == SKIP:
        for message in verdict.messages:
            yield message.partition(": ")[2]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def main() -> None:
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else PAGE
    target.write_text(page(document.load(Path(sys.argv[1]))), encoding="utf-8")


if __name__ == "__main__":
    main()
