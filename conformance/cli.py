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
from conformance.driver import PATH, Runtime, identify, tell_apart
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
    """Return the argument parser."""
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
        help="runtime to test, a path or a name in PATH; may be repeated",
    )
    add(
        "--option",
        action="append",
        default=[],
        metavar="OPTION",
        help="global option to pass to the runtimes, for example --option=--systemd-cgroup",
    )
    _add_selection(made)
    add(
        "--report",
        action="append",
        default=[],
        type=formats.target,
        metavar="FORMAT=FILE",
        help=f"write a report (formats: {', '.join(sorted(formats.FORMATS))}; FILE - is stdout)",
    )
    add(
        "--expected",
        metavar="FILE",
        help="file of known deviations (default: the kit's own; none: expect every case to pass)",
    )
    add("--write-expected", action="store_true", help="record the failures as known deviations")
    add("--list", action="store_true", help="list the cases and exit")
    add("-x", "--exitfirst", action="store_true", help="stop at the first failure")
    add("-v", "--verbose", action="store_true", help="print a line for each case")
    _add_limits(made)
    add("--keep", action="store_true", help="keep bundles and outputs")
    return made


def _add_limits(made: argparse.ArgumentParser) -> None:
    add = made.add_argument
    add(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="cases to run in parallel (default: %(default)s)",
    )
    add(
        "--timeout",
        type=float,
        default=40,
        metavar="SECONDS",
        help="timeout of a case (default: %(default)s)",
    )
    add(
        "--command-timeout",
        type=float,
        default=15,
        metavar="SECONDS",
        help="timeout of a single command of the runtime (default: %(default)s)",
    )


def _add_selection(made: argparse.ArgumentParser) -> None:
    add = made.add_argument
    add(
        "--filter",
        action="append",
        default=[],
        metavar="TEXT",
        help="run only cases whose SECTION::NAME contains TEXT or that have a clause starting "
        "with it; may be repeated",
    )
    add(
        "--skipped-in",
        metavar="FILE",
        help="run the cases that the first runtime in that JSON report skipped, and those of "
        "--filter",
    )
    add(
        "--level",
        choices=sorted(LEVELS),
        default="all",
        help="run only cases with clauses of at least that level (default: %(default)s)",
    )


def selected(
    cases: Sequence[Case], filters: Sequence[str], level: str, more: frozenset[str] = frozenset()
) -> list[Case]:
    """Return the cases of the level that match any filter or whose path is in ``more``."""
    levels = LEVELS[level]
    matching = []
    for one in cases:
        if levels is not None and not any(registry()[id].level in levels for id in one.clauses):
            continue
        matches = one.path in more or any(_fits(one, word) for word in filters)
        if (filters or more) and not matches:
            continue
        matching.append(one)
    return matching


def _fits(case: Case, word: str) -> bool:
    return word in case.path or any(id.startswith(word) for id in case.clauses)


def skipped_in(file: str) -> frozenset[str]:
    """Return the paths of the cases that the first runtime in a JSON report skipped.

    Raises SystemExit.
    """
    try:
        run = document.load(Path(file))
    except (OSError, ValueError) as error:
        raise SystemExit(f"oci-conformance: --skipped-in: read {file}: {error}") from None
    return frozenset(one.case for one in run.of(run.runtimes[0].label) if one.status == SKIP)


def find_runtime(word: str, options: Sequence[str]) -> Runtime:
    """Return the runtime with that path or name; raises SystemExit if there is none."""
    program = shutil.which(word, path=f"{os.environ.get('PATH', '')}:{PATH}")
    if program is None:
        raise SystemExit(f'oci-conformance: runtime "{word}": no such executable')
    path = Path(program).absolute()
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return identify(path, done.stdout, options)


def known_deviations(runtime: Runtime, file: str | None) -> deviations.Known | None:
    """Return the runtime's known deviations; None if ``file`` is "none" or does not exist.

    Without ``file``, the kit's own are loaded.  Raises SystemExit.
    """
    if file == "none":
        return None
    path = Path(file) if file else deviations.file_for(runtime)
    try:
        return deviations.load(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SystemExit(f"oci-conformance: known deviations {path}: {error}") from None


def write_expected(run: Run, file: str | None) -> None:
    """Update each runtime's file of known deviations by the outcomes."""
    for runtime in run.runtimes:
        path = Path(file) if file else deviations.file_for(runtime)
        known = known_deviations(runtime, file) or {}
        updated = deviations.updated(run.of(runtime.label), known, run.host["kind"])
        path.write_text(deviations.dump(runtime.release, updated), encoding="utf-8")
        print(f"{path}: {len(updated)} known deviations", file=sys.stderr)


def show(cases: Sequence[Case]) -> None:
    """Print the name, clauses and description of each case."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for one in cases:
        print(f"{one.path}  {' '.join(one.clauses)}\n    {one.text}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if no case differs from what is expected, else 1.

    Exits with status 2 for wrong usage.
    """
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
        parser().error("--runtime is required")
    if not cases:
        raise SystemExit("oci-conformance: no case matches --filter, --skipped-in and --level")
    runtimes = tell_apart([find_runtime(word, options.option) for word in options.runtime])
    if options.write_expected and len({one.release for one in runtimes}) < len(runtimes):
        parser().error("--write-expected: two builds of one version have one file")
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
    """Return a run without outcomes: the host, the runtimes, and their known deviations."""
    host = Host().describe(any(one.systemd for one in runtimes))
    loaded = {one.label: known_deviations(one, expected) for one in runtimes}
    made = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    known = {
        label: deviations.seen_on(one, host["kind"])
        for label, one in loaded.items()
        if one is not None
    }
    related = {}
    for runtime in runtimes:
        relative = deviations.nearest(runtime)
        if loaded[runtime.label] is None and relative is not None and expected is None:
            file = deviations.load(relative)
            related[runtime.label] = relative.stem, deviations.seen_on(file, host["kind"])
    return Run(accepted(runtimes, settings), [], known, host, made, related)


def finish(run: Run, options: argparse.Namespace) -> int:
    """Write the reports, and the summary unless a report is on standard output.

    Return the exit status.
    """
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
    """Run every case on every runtime, with progress on standard error."""
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
