"""Stress tests: many containers, long runs, concurrency and contention: ``./dev soak``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.place import NAME, Failed, build_spawner, workplace
from bench.runtimes import PEERS, chosen
from tests.soak import subjects, summary
from tests.soak.journal import Journal
from tests.soak.parts import FULL, PARTS, Counts, Part
from tests.support import project

REPOSITORY = Path(__file__).resolve().parent.parent.parent
WORK = REPOSITORY / "build" / "soak"
DOCUMENT = REPOSITORY / "docs" / "reliability.md"
PICTURE = REPOSITORY / "docs" / "reliability.svg"
BEGINNING, END = "<!-- results of ./dev soak -->", "<!-- end of the soak -->"
BAR = 30
DESCRIPTION = """\
Run containers in numbers, and check that nothing is left. Parts (default: all):
contention (clients that fight over one id; their history must be
linearizable), pid-reuse (a dead init's pid gets a stranger, which no command
may touch), alive (many containers alive), burst (many creates at once), lives
(whole lives in a row, after which the kernel's counters must be where they
were). Results are appended to files: a soak that is started again goes on.
"""
MEANINGS = {
    "lives": "whole lives in a row",
    "alive": "containers alive at the same time",
    "creates": "creates at once",
    "rounds": "rounds of these",
    "clients": "clients that fight over one id",
    "seconds": "seconds for which they fight",
    "reuses": "reuses of a pid",
}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev soak",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = Counts()
    for name, meaning in MEANINGS.items():
        few, many = getattr(default, name), getattr(FULL, name)
        text = f"{meaning} (default: {few}; with --full: {many})"
        parser.add_argument(f"--{name}", type=int, metavar="N", help=text)
    parser.add_argument("--full", action="store_true", help="the large counts (an hour or two)")
    parser.add_argument("--minutes", type=float, metavar="N", help="stop after N minutes")
    work = "where the results are (default: build/soak)"
    parser.add_argument("--work", type=Path, default=WORK, metavar="DIRECTORY", help=work)
    runtime = "ociruntime to test (default: the one built here)"
    parser.add_argument("--runtime", type=Path, metavar="PATH", help=runtime)
    peers = "runtimes to compare with (default: %(default)s; empty for none)"
    parser.add_argument("--peers", default=",".join(PEERS), metavar="NAME,...", help=peers)
    document = "also update docs/reliability.md and docs/reliability.svg"
    parser.add_argument("--document", action="store_true", help=document)
    names = [part.name for part in PARTS]
    parser.add_argument("part", nargs="*", metavar="PART", help=", ".join(names))
    found = parser.parse_args(arguments)
    if unknown := [name for name in found.part if name not in names]:
        parser.error(f"no such part: {unknown[0]} (choose from {', '.join(names)})")
    return found


def counts(options: argparse.Namespace) -> Counts:
    """Return the amount of work of each part."""
    base = FULL if options.full else Counts()
    given = {name: getattr(options, name) for name in MEANINGS}
    return dataclasses.replace(base, **{k: v for k, v in given.items() if v is not None})


def show(part: Part, done: int) -> None:
    """Show the progress, on one line of a terminal."""
    filled = BAR * min(done, part.total) // max(part.total, 1)
    bar = "#" * filled + "." * (BAR - filled)
    line = f"[{bar}] {part.name} {part.subject.kind}: {done} of {part.total} {part.unit}"
    print(line, end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)


def run(parts: list[Part], journal: Journal, in_time: Callable[[], bool]) -> None:
    """Do the rest of one part with all runtimes; raises Failed.

    They take turns: a disturbance of the machine then affects all alike.
    """
    shown = 0.0
    try:
        open_ones = list(parts)
        while open_ones and in_time():
            part = open_ones.pop(0)
            done = part.done(journal.records(part.name, part.subject.kind))
            if time.monotonic() - shown > (0 if sys.stderr.isatty() else 10) or done >= part.total:
                shown = time.monotonic()
                show(part, done)
            if done < part.total:
                open_ones.append(part)
                _step(part, done, journal)
    finally:
        for part in parts:
            part.close()


def _step(part: Part, done: int, journal: Journal) -> None:
    record = part.step(done)
    journal.add(part.name, part.subject.kind, record)
    for line in record["problems"]:
        print(f"{part.name} {part.subject.kind}: {line}", flush=True)


def enter(stack: ExitStack, programs: list[Path]) -> tuple[Path, list[Path]]:
    """Enter a workplace; return its directory, and the runtimes to use there.

    On a hybrid host crun needs a v1 hierarchy, which cannot be mounted while others use cgroup v2.
    """
    if any(path.name == "crun" for path in programs):
        try:
            return stack.enter_context(workplace(with_crun=True)), programs
        except SystemExit as error:
            print(f"without crun: {error}", file=sys.stderr)
    others = [path for path in programs if path.name != "crun"]
    return stack.enter_context(workplace()), others


def soak(options: argparse.Namespace, journal: Journal) -> None:
    """Run all parts with all runtimes; raises Failed, KeyboardInterrupt."""
    wanted = counts(options)
    deadline = time.monotonic() + options.minutes * 60 if options.minutes else float("inf")
    programs = chosen([options.runtime.absolute()] if options.runtime else None, options.peers)
    names = options.part or [part.name for part in PARTS]
    with ExitStack() as stack:
        place, programs = enter(stack, programs)
        spawner = build_spawner(place)
        made = [
            subjects.make(program, place / str(number), spawner, NAME)
            for number, program in enumerate(programs)
        ]
        for kind in (part for part in PARTS if part.name in names):
            parts = [kind(subject, wanted) for subject in made]
            run(parts, journal, lambda: time.monotonic() < deadline)
        for subject in made:
            subject.spawn.close()


def write(options: argparse.Namespace, journal: Journal) -> bool:
    """Print the tables and write the files; return whether ociruntime has no deviation."""
    found = summary.summarize(journal)
    (options.work / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    picture = summary.picture(found)
    (options.work / "chart.svg").write_text(picture)
    tables = summary.tables(found)
    print(tables)
    if options.document:
        project.replace_block(DOCUMENT, BEGINNING, END, tables)
        PICTURE.write_text(picture)
    own = [part.get(subjects.OWN, {}) for part in found.values()]
    return not any(one.get("problems") for one in own)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    journal = Journal(options.work)
    try:
        soak(options, journal)
    except KeyboardInterrupt:
        print("stopped; the next soak goes on from here", file=sys.stderr)
    except Failed as error:
        print(f"soak: {error}", file=sys.stderr)
        return 1
    return 0 if write(options, journal) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
