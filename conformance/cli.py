"""The command ``oci-conformance``."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import NoReturn

from conformance import __version__, deviations
from conformance.case import Case, discover
from conformance.clauses import registry
from conformance.driver import PATH, Runtime, identify
from conformance.host import Host
from conformance.program import NoProbe, probe_path
from conformance.report import document, formats, text
from conformance.report.run import Run
from conformance.runner.outcome import SKIP, Outcome
from conformance.runner.pool import Pool, Settings
from conformance.runner.versions import accepted

LEVELS = {
    "must": {"MUST", "MUST NOT", "REQUIRED"},
    "should": {"MUST", "MUST NOT", "REQUIRED", "SHOULD", "SHOULD NOT"},
    "all": None,
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of all options."""
    made = argparse.ArgumentParser(
        prog="oci-conformance",
        description="Test OCI runtimes against the runtime specification 1.3, clause by clause.",
    )
    add = made.add_argument
    add("--version", action="version", version=f"oci-conformance {__version__}")
    add(
        "--runtime",
        action="append",
        default=[],
        metavar="PATH",
        help="program to test; may be given several times",
    )
    add(
        "--option",
        action="append",
        default=[],
        metavar="OPTION",
        help="global option for the runtimes, as --option=--systemd-cgroup",
    )
    _add_selection(made)
    add(
        "--report",
        action="append",
        default=[],
        type=formats.target,
        metavar="FORMAT=FILE",
        help=f"write a report: {', '.join(sorted(formats.FORMATS))}; - is standard output",
    )
    add(
        "--expected",
        metavar="FILE",
        help="known deviations, instead of those that the kit has; none: expect a pass of all",
    )
    add("--write-expected", action="store_true", help="note what fails as known deviations")
    add("--list", action="store_true", help="show the cases and do nothing")
    add("-x", "--exitfirst", action="store_true", help="stop at the first failure")
    add("-v", "--verbose", action="store_true", help="a line for each case")
    add("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="cases at a time")
    add("--timeout", type=float, default=40, metavar="SECONDS", help="limit for a case")
    add(
        "--command-timeout",
        type=float,
        default=15,
        metavar="SECONDS",
        help="limit for a single command of the runtime",
    )
    add("--keep", action="store_true", help="keep bundles and outputs")
    return made


def _add_selection(made: argparse.ArgumentParser) -> None:
    add = made.add_argument
    add(
        "--filter",
        action="append",
        default=[],
        metavar="TEXT",
        help="only cases with that in section::name or with a clause that begins so",
    )
    add(
        "--skipped-in",
        metavar="FILE",
        help="only cases that the first runtime of that JSON report skipped, and those of --filter",
    )
    add("--level", choices=sorted(LEVELS), default="all", help="only clauses of that weight")


def selected(
    cases: Sequence[Case], filters: Sequence[str], level: str, more: frozenset[str] = frozenset()
) -> list[Case]:
    """Return the cases of the level that match any filter or whose path is in ``more``."""
    levels = LEVELS[level]
    found = []
    for one in cases:
        if levels is not None and not any(registry()[id].level in levels for id in one.clauses):
            continue
        wanted = one.path in more or any(_fits(one, word) for word in filters)
        if (filters or more) and not wanted:
            continue
        found.append(one)
    return found


def _fits(case: Case, word: str) -> bool:
    return word in case.path or any(id.startswith(word) for id in case.clauses)


def skipped_in(file: str) -> frozenset[str]:
    """Paths of cases that the first runtime of a run skipped; raises SystemExit."""
    try:
        run = document.load(Path(file))
    except (OSError, ValueError) as error:
        raise SystemExit(f"oci-conformance: {file}: {error}") from None
    return frozenset(one.case for one in run.of(run.runtimes[0].label) if one.status == SKIP)


def find_runtime(word: str, options: Sequence[str]) -> Runtime:
    """A program by path or name; raises SystemExit."""
    found = shutil.which(word, path=f"{os.environ.get('PATH', '')}:{PATH}")
    if found is None:
        raise SystemExit(f"oci-conformance: no program {word}")
    path = Path(found).absolute()
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return identify(path, done.stdout, options)


def known_deviations(runtime: Runtime, file: str | None) -> deviations.Known | None:
    """Return the runtime's known deviations; None if there is no such file. Raises SystemExit."""
    if file == "none":
        return None
    path = Path(file) if file else deviations.file_for(runtime)
    try:
        return deviations.load(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SystemExit(f"oci-conformance: {path}: {error}") from None


def write_expected(run: Run, file: str | None) -> None:
    """Update the file of each runtime."""
    for runtime in run.runtimes:
        path = Path(file) if file else deviations.file_for(runtime)
        known = known_deviations(runtime, file) or {}
        found = deviations.updated(run.of(runtime.label), known, run.host["kind"])
        path.write_text(deviations.dump(runtime.label, found), encoding="utf-8")
        print(f"{path}: {len(found)} known deviations", file=sys.stderr)


def show(cases: Sequence[Case]) -> None:
    """Name, clauses and text of each case."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for one in cases:
        print(f"{one.path}  {' '.join(one.clauses)}\n    {one.text}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0: nothing failed that was not known; 1: something did; 2: wrong usage."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["diff"]:
        from conformance.difference import command

        return command.main(words[1:])
    options = parser().parse_args(words)
    more = skipped_in(options.skipped_in) if options.skipped_in else frozenset()
    cases = selected(discover(), options.filter, options.level, more)
    if options.list:
        show(cases)
        return 0
    if not options.runtime:
        parser().error("--runtime is needed")
    if not cases:
        raise SystemExit("oci-conformance: no case fits")
    runtimes = [find_runtime(word, options.option) for word in options.runtime]
    try:
        probe = probe_path()
    except NoProbe as error:
        raise SystemExit(f"oci-conformance: {error}") from None
    settings = Settings(
        probe=probe,
        jobs=max(1, options.jobs),
        timeout=options.timeout,
        command_timeout=options.command_timeout,
        stop_at_first=options.exitfirst,
        keep=options.keep,
    )
    run = prepare(runtimes, settings, options.expected)
    outcomes = execute(cases, run.runtimes, settings, options.verbose)
    labels = [one.label for one in run.runtimes]
    paths = [one.path for one in cases]
    run.outcomes = sorted(
        outcomes, key=lambda one: (labels.index(one.runtime), paths.index(one.case))
    )
    return finish(run, options)


def prepare(runtimes: Sequence[Runtime], settings: Settings, expected: str | None) -> Run:
    """A run without outcomes."""
    host = Host().describe(any(one.systemd for one in runtimes))
    found = {one.label: known_deviations(one, expected) for one in runtimes}
    made = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    known = {
        label: deviations.seen_on(one, host["kind"])
        for label, one in found.items()
        if one is not None
    }
    return Run(accepted(runtimes, settings), [], known, host, made)


def finish(run: Run, options: argparse.Namespace) -> int:
    """Write what is wanted; the exit status."""
    for form, file in options.report:
        formats.write(run, form, file)
    if all(file != "-" for _, file in options.report):
        print(text.summary(run))
    if options.write_expected:
        write_expected(run, options.expected)
        return 0
    return 1 if run.failed else 0


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def execute(
    cases: Sequence[Case], runtimes: Sequence[Runtime], settings: Settings, verbose: bool
) -> list[Outcome]:
    """Run all with progress on standard error."""
    pairs = [(case, runtime) for runtime in runtimes for case in cases]
    progress = text.Progress(len(pairs), verbose)
    signal.signal(signal.SIGTERM, _stop)
    pool = Pool(settings)
    outcomes = []
    try:
        for outcome in pool.run(pairs, progress.begun):
            progress.ended(outcome)
            outcomes.append(outcome)
    finally:
        progress.finish()
        if settings.keep:
            print(f"kept: {pool.directory}", file=sys.stderr)
    return outcomes
