"""Summarise the records of a soak: one document of numbers, its tables and its chart (pure)."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from typing import Any

from bench import chart
from tests.soak import kernel_counters
from tests.soak.alive import percentile
from tests.soak.journal import Journal, Record

Summary = dict[str, Any]


def contention(records: list[Record]) -> Summary:
    best = max(records, key=lambda one: one["seconds"])
    problems = [line for one in records for line in one["problems"]]
    named = ("seconds", "clients", "operations", "lives", "overlapping", "hangs")
    return {name: best[name] for name in named} | {"problems": problems}


def reuse(records: list[Record]) -> Summary:
    totals: Counter[str] = Counter()
    for one in records:
        totals.update({name: one[name] for name in ("count", "during", "impossible")})
    return {**totals, "problems": [line for one in records for line in one["problems"]]}


def alive(records: list[Record]) -> Summary:
    return max(records, key=lambda one: one["count"])


def burst(records: list[Record]) -> Summary:
    largest = max(one["count"] for one in records)
    chosen = [one for one in records if one["count"] == largest]
    walls = [wall for one in chosen for wall in one["walls"]]
    per_second = [one["count"] / one["elapsed"] * 1000 for one in chosen]
    return {
        "count": largest,
        "rounds": len(chosen),
        "per_second": statistics.median(per_second),
        "p50": percentile(walls, 0.5),
        "p99": percentile(walls, 0.99),
        "cpu": statistics.median(cpu for one in chosen for cpu in one["cpus"]),
        "failed": sum(one["failed"] for one in chosen),
        "problems": [line for one in chosen for line in one["problems"]],
    }


def lives(records: list[Record]) -> Summary:
    """Keep the sessions apart: each has begun with other numbers."""
    sessions: dict[str, list[tuple[int, kernel_counters.Reading]]] = {}
    for one in records:
        before = sessions.setdefault(one["session"], [])
        total = one["count"] + (before[-1][0] if before else 0)
        before.append((total, one["reading"]))
    readings = list(sessions.values())
    problems = [line for one in records for line in one["problems"]]
    return {
        "count": sum(one["count"] for one in records),
        "in_a_row": max(each[-1][0] for each in readings),
        "growth": kernel_counters.growth_of_all(readings),
        "problems": problems + kernel_counters.leaks_of(readings),
    }


SUMMARIES: dict[str, Callable[[list[Record]], Summary]] = {
    "contention": contention,
    "pid-reuse": reuse,
    "alive": alive,
    "burst": burst,
    "lives": lives,
}


def summarize(journal: Journal) -> dict[str, dict[str, Summary]]:
    """Return {part: {runtime: numbers}}, for the work done so far."""
    found: dict[str, dict[str, Summary]] = {}
    for part, make in SUMMARIES.items():
        for runtime in journal.runtimes(part):
            found.setdefault(part, {})[runtime] = make(journal.records(part, runtime))
    return found


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.1f}"


ROWS: dict[str, list[tuple[str, Callable[[Summary], str]]]] = {
    "contention": [
        ("clients, seconds", lambda one: f"{one['clients']}, {one['seconds']}"),
        ("commands, of these overlapping",
         lambda one: f"{one['operations']}, {one['overlapping']}"),
        ("containers created", lambda one: str(one["lives"])),
        ("commands that hang", lambda one: str(one["hangs"])),
        ("deviations", lambda one: str(len(one["problems"]))),
    ],
    "pid-reuse": [
        ("pids reused", lambda one: str(one["count"])),
        ("of these while a command runs", lambda one: str(one["during"])),
        ("deviations", lambda one: str(len(one["problems"]))),
    ],
    "alive": [
        ("containers alive", lambda one: str(one["alive"])),
        ("list, ms", lambda one: _number(one["list"])),
        ("state, ms", lambda one: _number(one["state"])),
        ("create of the first 20, of the last 20, ms",
         lambda one: f"{_number(one['create_first'])}, {_number(one['create_last'])}"),
        ("memory of a created init (PSS), KiB", lambda one: _number(one["memory_created"])),
        ("memory of a running one (PSS), KiB", lambda one: _number(one["memory_running"])),
        ("memory of the machine per created container, KiB",
         lambda one: _number(one["machine_created"])),
        ("deviations", lambda one: str(len(one["problems"]))),
    ],
    "burst": [
        ("creates at once, rounds", lambda one: f"{one['count']}, {one['rounds']}"),
        ("created per second", lambda one: _number(one["per_second"])),
        ("p50, ms", lambda one: _number(one["p50"])),
        ("p99, ms", lambda one: _number(one["p99"])),
        ("CPU time, median, ms", lambda one: _number(one["cpu"])),
        ("failed", lambda one: str(one["failed"])),
        ("deviations", lambda one: str(len(one["problems"]))),
    ],
    "lives": [
        ("whole lives", lambda one: str(one["count"])),
        ("of these in one session", lambda one: str(one["in_a_row"])),
        ("deviations", lambda one: str(len(one["problems"]))),
    ],
}  # fmt: skip


def tables(found: dict[str, dict[str, Summary]]) -> str:
    """Return a Markdown table of each part, and one of the kernel's counters after many lives."""
    made = []
    for part, rows in ROWS.items():
        if part not in found:
            continue
        runtimes = list(found[part])
        cells = [[name, *(show(found[part][each]) for each in runtimes)] for name, show in rows]
        made.append(_table([part, *runtimes], cells))
    if "lives" in found:
        made.append(_growth(found["lives"]))
    return "\n\n".join(made)


def _growth(found: dict[str, Summary]) -> str:
    names = next(iter(found.values()))["growth"]
    rows = [
        [name, *(f"{one['growth'].get(name, 0):+.3f}" for one in found.values())] for name in names
    ]
    return _table(["more per life", *found], rows)


def picture(found: dict[str, dict[str, Summary]]) -> str:
    """Return an SVG chart of the times with many containers."""
    values: dict[str, dict[str, float]] = {}
    for runtime, one in found.get("burst", {}).items():
        values.setdefault(runtime, {}).update({"p50": one["p50"], "p99": one["p99"]})
    for runtime, one in found.get("alive", {}).items():
        values.setdefault(runtime, {}).update({"list": one["list"]})
    counts = [one["count"] for one in found.get("burst", {}).values()]
    alive_counts = [one["count"] for one in found.get("alive", {}).values()]
    title = f"{max(counts, default=0)} creates at once: p50 and p99 of each"
    title += f"; list with {max(alive_counts, default=0)} containers"
    return chart.bars(title, values, ["p50", "p99", "list"])
