"""Report as an HTML page: clauses as rows, runtimes as columns, messages on a click.

It is self-contained and has no script: filters are radio buttons evaluated by CSS, and on narrow
screens a row becomes a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import groupby
from pathlib import Path

from conformance.clauses import Clause, registry
from conformance.deviations import plain
from conformance.report.run import Run
from conformance.runner.outcome import ERROR, FAIL, HIDDEN, PASS, SKIP, UNTESTED, Verdict

STYLE = Path(__file__).with_name("page.css")
MARKS = {
    PASS: "✓ pass",
    FAIL: "✗ fail",
    ERROR: "! error",
    SKIP: "○ skipped",
    UNTESTED: "· not run",
    HIDDEN: "· hidden",
}
FILTERS = (
    ("all", "all clauses"),
    ("bad", "failing somewhere"),
    ("differ", "runtimes differ"),
    ("binding", "MUST and REQUIRED"),
    ("changed", "changed"),
)


def dump(run: Run) -> str:
    """Return the page's text."""
    labels = [one.label for one in run.runtimes]
    title = f"OCI runtime conformance: {', '.join(labels)}"
    head = (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n"
        f"<style>\n{STYLE.read_text(encoding='utf-8')}"
        f"tr {{ --runtimes: {max(1, len(labels))} }}\n</style>\n"
    )
    return head + "\n".join([*_introduction(run), *_filters(), *_sections(run), "</html>", ""])


def _introduction(run: Run) -> Iterator[str]:
    host = ", ".join(f"{key} {value}" for key, value in run.host.items() if key != "controllers")
    yield "<h1>Conformance to the OCI runtime specification 1.3</h1>"
    yield f"<p class=note>{escape(' · '.join(filter(None, (run.made, host))))}</p>"
    yield "<table class=summary><thead><tr><th>runtime<th>clauses<th>of them binding"
    yield "<th>cases</thead><tbody>"
    for one in run.runtimes:
        outcomes = run.of(one.label)
        bad = sum(outcome.bad for outcome in outcomes)
        changed = sum(label == one.label for label, _ in run.changed)
        cases = f"{len(outcomes)}, {bad} failing"
        if one.label in run.known:
            cases += f", {changed} changed"
        yield (
            f"<tr><th>{escape(one.label)}<td>{_counted(run, one.label, False)}"
            f"<td>{_counted(run, one.label, True)}<td>{cases}"
        )
    yield "</tbody></table>"
    yield (
        "<p class=note>A clause fails if one of its cases does. Hidden: cannot be observed from "
        "outside. Skipped: cannot be tested on this host. Click a result for details.</p>"
    )


def _counted(run: Run, label: str, binding: bool) -> str:
    counts = run.counts(label, binding)
    return ", ".join(
        f"<span class={status}>{counts[status]} {mark.partition(' ')[2]}</span>"
        for status, mark in MARKS.items()
        if counts[status]
    )


def _filters() -> Iterator[str]:
    for number, (name, text) in enumerate(FILTERS):
        checked = "" if number else " checked"
        yield f"<input type=radio name=show id={name}{checked}><label for={name}>{text}</label>"


def _sections(run: Run) -> Iterator[str]:
    heads = "".join(f"<th scope=col>{escape(one.label)}" for one in run.runtimes)
    span = len(run.runtimes) + 1
    yield "<main>"
    for file, clauses in groupby(registry().values(), lambda one: one.source.partition("#")[0]):
        yield f"<h2>{escape(file)}</h2>"
        yield f"<table><thead><tr><th scope=col>clause{heads}</thead>"
        for source, members in groupby(clauses, lambda one: one.source):
            group = list(members)
            name = source.partition("#")[2] or file
            yield (
                f"<tbody><tr class=section><th colspan={span}>"
                f'<a href="{escape(group[0].link)}">{escape(name)}</a>'
            )
            for clause in group:
                yield from _row(run, clause)
            yield "</tbody>"
        yield "</table>"
    yield "</main>"


def _row(run: Run, clause: Clause) -> Iterator[str]:
    verdicts = {label: found[clause.id] for label, found in run.verdicts.items()}
    kinds = {one.status for one in verdicts.values()}
    changes = _changes(run, clause)
    classes = [
        *(["bad"] if kinds & {FAIL, ERROR} else []),
        *(["differ"] if len(kinds) > 1 else []),
        *(["binding"] if clause.binding else []),
        *(["changed"] if changes else []),
    ]
    cases = sorted({case for one in verdicts.values() for case in one.cases})
    details = _list(cases) or f"<p>{escape(clause.reason or 'no case ran')}</p>"
    yield (
        f'<tr class="{" ".join(classes)}" id={clause.id}><td class=clause><details>'
        f"<summary><b>{clause.id}</b> <i>{clause.level}</i> {escape(clause.text)}</summary>"
        f"{details}</details>"
    )
    for label, verdict in verdicts.items():
        yield _cell(label, verdict, changes.get(label, []), _reasons(run, clause, label))


def _cell(label: str, verdict: Verdict, changes: list[str], reasons: list[str]) -> str:
    mark = MARKS[verdict.status] + (" (changed)" if changes else "")
    if reasons and verdict.status == FAIL and not changes:
        mark += " (known)"
    more = _list([*changes, *verdict.messages, *(f"known: {one}" for one in reasons)])
    # A hidden clause has its reason in the first column.
    if more and verdict.status != HIDDEN:
        mark = f"<details><summary>{mark}</summary>{more}</details>"
    return f'<td class={verdict.status} data-runtime="{escape(label)}">{mark}'


def _changes(run: Run, clause: Clause) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for (label, case), how in run.changed.items():
        if case in run.verdicts[label][clause.id].cases:
            found.setdefault(label, []).append(f"{case} {how}")
    return found


def _reasons(run: Run, clause: Clause, label: str) -> list[str]:
    cases = run.verdicts[label][clause.id].cases
    reasons = [run.reason(one) for one in run.of(label) if one.case in cases]
    return list(dict.fromkeys(filter(None, reasons)))


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(plain(line))}" for line in lines)
    return f"<ul>{items}</ul>" if items else ""
