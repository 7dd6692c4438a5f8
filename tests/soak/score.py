"""Write the scorecard in docs/reliability.md from what was measured: ``./dev score``."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.place import NAME, build_spawner
from bench.runtimes import PEERS, chosen
from tests.fuzz import tried
from tests.soak import invalid_configs, scorecard, subjects, summary
from tests.soak.__main__ import DOCUMENT, REPOSITORY, enter
from tests.soak.journal import Journal
from tests.soak.scorecard import Sources
from tests.support import project
from tests.support.runtime import kind_of

BEGINNING, END = "<!-- the scorecard of ./dev score -->", "<!-- end of the scorecard -->"
BUILD = REPOSITORY / "build"
RECORDED = REPOSITORY / "docs" / "reliability.json"
INVALID = 500
# Tests that other runtimes can pass as well, by row; a file that does not exist is skipped.
TESTS = {
    "R10": ("tests/runtime/test_pause.py", "tests/runtime/test_shared_pids.py",
            "tests/faults/test_freezers.py"),
    "R11": ("tests/runtime/test_hooks.py", "tests/runtime/test_hook_output.py",
            "tests/runtime/test_console.py", "tests/runtime/test_run.py"),
}  # fmt: skip
# The suite of row S4, and the calls that are refused in its runs, with the error.
SUITE = ("tests/executor", "tests/runtime")
EVERY_CALL = "openat2,mount-api,close_range,faccessat2,statx,keyctl"
REFUSED = {name: name for name in EVERY_CALL.split(",")} | {"all": EVERY_CALL}
OLD_KERNELS = {
    f"{name}-{error}": (calls, error)
    for name, calls in REFUSED.items()
    for error in ("ENOSYS", "EPERM")
}
DESCRIPTION = """\
Write the scorecard in docs/reliability.md. It takes the results of ./dev sweep,
starve, soak, fuzz, bundles and coverage from build/, and runs the tests and
configurations of the other rows, unless their results are there already; the
suite of S4, which takes two hours, only with --run S4. What
it has once written is also in docs/reliability.json, and stays until something
was measured as often, or has shown a deviation.
"""


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev score",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--peers", default=",".join(PEERS), metavar="NAME,...",
                        help="runtimes to compare with (default: %(default)s)")  # fmt: skip
    parser.add_argument("--run", action="append", choices=["R5", "S4", *TESTS], metavar="ROW",
                        help="run this row's tests again (R5, R10, R11, S4)")  # fmt: skip
    results = "where the results are, of this or another machine (default: build)"
    parser.add_argument("--results", type=Path, default=BUILD, metavar="DIRECTORY", help=results)
    parser.add_argument("--no-runs", action="store_true",
                        help="run nothing: only write what was measured")  # fmt: skip
    return parser.parse_args(arguments)


def counts(report: Path) -> dict[str, int]:
    """Return the tests that ran and those that failed, from a JUnit report.

    A known deviation of a peer, which pytest calls skipped, is one that failed.
    """
    totals: Counter[str] = Counter()
    for case in ET.parse(report).iter("testcase"):
        skipped = case.find("skipped")
        if skipped is not None and skipped.get("type") != "pytest.xfail":
            continue
        totals["count"] += 1
        failed = any(case.find(kind) is not None for kind in ("failure", "error", "skipped"))
        totals["deviations"] += failed
    return {"count": totals["count"], "deviations": totals["deviations"]}


def run_tests(row: str, program: Path, report: Path) -> dict[str, int]:
    """Run the tests of a row with a runtime; return how many there were, and failed."""
    files = [name for name in TESTS[row] if (REPOSITORY / name).exists()]
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    words += [f"--runtime={program}", f"--junitxml={report}"]
    subprocess.run(words, cwd=REPOSITORY, check=False)
    return counts(report)


def run_old_kernels(results: Path) -> None:
    """Run the suite once with each set of ``OLD_KERNELS`` that has no report in ``results`` yet."""
    results.mkdir(parents=True, exist_ok=True)
    for name, (calls, error) in OLD_KERNELS.items():
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SUITE]
        words += [f"--without={calls}", f"--without-error={error}"]
        report = results / f"{name}.xml"
        if not report.exists():
            subprocess.run([*words, f"--junitxml={report}"], cwd=REPOSITORY, check=False)


def old_kernels(results: Path) -> dict[str, dict[str, int]]:
    """Return the numbers of the reports of ``run_old_kernels`` that are there."""
    reports = {name: results / f"{name}.xml" for name in OLD_KERNELS}
    return {name: counts(report) for name, report in reports.items() if report.exists()}


def run_invalid(programs: list[Path], found: dict[str, dict[str, Any]], path: Path) -> None:
    """Try the invalid configurations with each runtime, and add the results to ``found``."""
    with ExitStack() as stack:
        place, programs = enter(stack, programs)
        spawner = build_spawner(place)
        for number, program in enumerate(programs):
            subject = subjects.make(program, place / str(number), spawner, NAME)
            result = invalid_configs.try_all(subject, INVALID)
            (path / f"R5.{subject.kind}.json").write_text(json.dumps(result, indent=1))
            numbers = ", ".join(
                f"{result[name]} {name}" for name in ("accepted", "unnamed", "left")
            )
            found.setdefault("R5", {})[subject.kind] = {
                "count": result["count"],
                "deviations": len(result["problems"]),
                "numbers": numbers,
            }
            subject.spawn.close()


def run(options: argparse.Namespace, work: Path) -> dict[str, dict[str, Any]]:
    """Run what has no results yet; return all results of own runs, row -> runtime -> numbers."""
    work.mkdir(parents=True, exist_ok=True)
    path = work / "runs.json"
    found: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    if options.no_runs:
        return found
    for row in options.run or ():
        found.pop(row, None)
    if "S4" in (options.run or ()):
        run_old_kernels(options.results / "old-kernel")
    programs = chosen(None, options.peers)
    for row in TESTS:
        for program in programs:
            kind = kind_of(program)
            if kind in found.get(row, {}):
                continue
            result = run_tests(row, program, work / f"{row}.{kind}.xml")
            if result["count"]:
                found.setdefault(row, {})[kind] = result
                path.write_text(json.dumps(found, indent=1))
    missing = [one for one in programs if kind_of(one) not in found.get("R5", {})]
    if missing:  # last: it moves this process to a mount namespace of its own
        run_invalid(missing, found, work)
        path.write_text(json.dumps(found, indent=1))
    return found


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the JSON objects of a file with one on each line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def soaked(work: Path) -> dict[str, dict[str, Any]]:
    """Return the numbers of a soak: from its records, or without these from what it has made."""
    document = work / "results.json"
    if not any(work.glob("*.jsonl")) and document.exists():
        found: dict[str, dict[str, Any]] = json.loads(document.read_text())
        return found
    return summary.summarize(Journal(work))


def gather(own_runs: dict[str, dict[str, Any]], results: Path = BUILD) -> Sources:
    """Return all results below a directory."""
    sweep: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((results / "sweep").glob("*.jsonl")):
        sweep.setdefault(path.name.split(".")[1], []).extend(lines(path))
    bundles, coverage = results / "bundles" / "runs.jsonl", results / "coverage" / "results.json"
    fuzzed = tried.totals(results / "fuzz")
    return Sources(
        sweep=sweep,
        swept=scorecard.of_page(DOCUMENT.read_text()),
        soak=soaked(results / "soak"),
        starvation={path.stem: lines(path) for path in (results / "starve").glob("*.jsonl")},
        own_runs=own_runs,
        old_kernels=old_kernels(results / "old-kernel"),
        fuzzed={name: (one.runs, len(one.findings)) for name, one in fuzzed.items()},
        bundles=lines(bundles) if bundles.exists() else (),
        coverage=json.loads(coverage.read_text()) if coverage.exists() else {},
    )


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    sources = gather(run(options, options.results / "score"), options.results)
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    found = scorecard.scores(sources, scorecard.from_json(recorded))
    table = scorecard.table(found)
    print(table)
    project.replace_block(DOCUMENT, BEGINNING, END, table)
    RECORDED.write_text(json.dumps(scorecard.to_json(found), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
