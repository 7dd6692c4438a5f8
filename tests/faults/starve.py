"""Run every command with every shortage, with ociruntime and its peers: ``./dev starve``."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults import running, starving
from tests.faults.scenarios import Stage
from tests.faults.shortages import SHORTAGES
from tests.faults.starving import Case
from tests.support import cgroupfs, isolation, processes, project
from tests.support.runtime import kind_of

REPOSITORY = Path(__file__).resolve().parent.parent.parent
DOCUMENT = REPOSITORY / "docs" / "reliability.md"
BEGINNING, END = "<!-- results of ./dev starve -->", "<!-- end of starve -->"
OWN = REPOSITORY / ".venv/bin/ociruntime"
# What is a deviation of any runtime, whatever its words are.
GRAVE = (
    *(
        "the command hangs",
        "state hangs",
        "delete --force",
        "left",
        "not undone",
        "success, but left",
    ),
    *("the id cannot", "died of signal", "status"),
)
UNKNOWN_ID = ("does not exist", "no such file")


@dataclass(frozen=True)
class Options:
    """The cases to run."""

    runtimes: list[Path]
    work: Path
    document: bool
    words: list[str]


def parse(arguments: list[str]) -> Options:
    parser = argparse.ArgumentParser(prog="./dev starve", description=__doc__)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "starve")
    parser.add_argument("--runtime", type=Path, action="append", help="default: ociruntime")
    document = f"also write the table to {DOCUMENT.relative_to(REPOSITORY)}"
    parser.add_argument("--document", action="store_true", help=document)
    parser.add_argument("word", nargs="*", help="only cases with one of these in the name")
    found = parser.parse_args(arguments)
    runtimes = [path.absolute() for path in found.runtime or [OWN]]
    return Options(runtimes, found.work, found.document, found.word)


def is_for(kind: str, case: Case) -> bool:
    """Return whether the runtime has the command, and can be tested with that shortage."""
    special = case.scenario.python or not case.scenario.snapshot or case.shortage.small_pid_space
    return kind == "ociruntime" or not (special or (kind, case.scenario.name) == ("crun", "events"))


def grave(problems: list[str]) -> list[str]:
    """Return the problems that do not depend on a runtime's wording of messages."""
    return [
        each
        for each in problems
        if each.startswith(GRAVE) and not any(word in each.lower() for word in UNKNOWN_ID)
    ]


def starve(program: Path, kind: str, options: Options) -> None:
    """Run the cases with one runtime, and write the results, a line of JSON for each."""
    base = Path(tempfile.mkdtemp(prefix="ociruntime-starve-", dir="/var/tmp"))
    options.work.mkdir(parents=True, exist_ok=True)
    try:
        stage = running.make_stage(program, base, f"octstarve{os.getpid():x}")
        if kind == "ociruntime":
            subprocess.run([program, "snapshot", "make"], check=True, stdout=subprocess.DEVNULL)
        with (options.work / f"{kind}.jsonl").open("w") as file:
            for record in _records(stage, kind, options.words):
                file.write(json.dumps(record) + "\n")
                file.flush()
    finally:
        processes.end(processes.descendants())
        shutil.rmtree(base)


def _records(stage: Stage, kind: str, words: list[str]) -> Iterator[dict[str, Any]]:
    for case in starving.cases():
        name = str(case)
        if not is_for(kind, case) or (words and not any(word in name for word in words)):
            continue
        result = starving.run(stage, case)
        found = result.problems if kind == "ociruntime" else grave(result.problems)
        if found:
            print(f"{kind}: {name}: {found}", flush=True)
        yield {
            "case": name,
            "shortage": case.shortage.name,
            "status": result.status,
            "problems": found,
            "message": result.message,
        }


def group(shortage: str) -> str:
    """Return the name of a shortage without its number."""
    return shortage.rstrip("0123456789mk").rstrip("-")


def page(work: Path) -> str:
    """Return a table of all results in the work directory."""
    kinds = [kind for kind in ("ociruntime", "runc", "crun") if (work / f"{kind}.jsonl").exists()]
    records = {
        kind: [json.loads(line) for line in (work / f"{kind}.jsonl").read_text().splitlines()]
        for kind in kinds
    }
    lines = [f"| shortage | {' | '.join(kinds)} |", "|---" * (len(kinds) + 1) + "|"]
    groups = dict.fromkeys(group(shortage.name) for shortage in SHORTAGES)
    for name in [*groups, "all"]:
        cells = []
        for kind in kinds:
            ours = [one for one in records[kind] if name in ("all", group(one["shortage"]))]
            cells.append(f"{sum(bool(one['problems']) for one in ours)} of {len(ours)}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if os.geteuid() != 0:
        print("starve: needs root", file=sys.stderr)
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job ignores the first
        signal.signal(number, signal.default_int_handler)
    isolation.enter()
    for program in options.runtimes:
        kind = kind_of(program)
        try:
            with cgroupfs.hugetlb_as_v1() if kind == "crun" else contextlib.nullcontext():
                starve(program, kind, options)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            return 130
    table = page(options.work)
    print(table)
    if options.document:
        project.replace_block(DOCUMENT, BEGINNING, END, table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
