"""Kill or interrupt every command at every system call, and fail every call: ``./dev sweep``.

The commands of ociruntime come first, then those of ocipod (pod-*, app-*, image-*), a pod's monitor
and the daemon (ocid-*), which have thousands of calls: give them a --stride.

Results are appended to a file of the work directory, a line of JSON for each run; a sweep that is
started again goes on where the last one was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults import running
from tests.faults.daemons import DAEMONS_BY_NAME, DaemonRunner, DaemonStage
from tests.faults.monitors import MONITORS_BY_NAME, MonitorRunner
from tests.faults.pods import PODS_BY_NAME, PodRunner, PodStage
from tests.faults.running import ContainerRunner, One, Runner
from tests.faults.scenarios import BY_NAME
from tests.faults.stepping import ALL, CALLER, COMMAND, Action, build, missing
from tests.support import isolation, processes, project

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PARTS = {
    "kill": "SIGKILL to the command, or to the process that makes the call",
    "kill-all": "SIGKILL to the command and all its processes",
    "interrupt": "SIGINT to the command, while it or another of its processes makes the call",
    "fail": "the call fails, with each error of calls.py",
}
OF_PODS = {**PODS_BY_NAME, **MONITORS_BY_NAME}
NAMES = (*BY_NAME, *OF_PODS, *DAEMONS_BY_NAME)
DOCUMENT = REPOSITORY / "docs" / "reliability.md"
BEGINNING, END = "<!-- results of ./dev sweep -->", "<!-- end of the results -->"
PROGRESS_SECONDS = 5.0


@dataclass(frozen=True)
class Options:
    """The scenarios and parts to run."""

    program: Path
    work: Path
    parts: list[str]
    scenarios: list[str]
    stride: int
    document: bool


def parse(arguments: list[str]) -> Options:
    parser = argparse.ArgumentParser(prog="./dev sweep", description=__doc__)
    parser.add_argument("--work", type=Path, default=REPOSITORY / "build" / "sweep")
    parser.add_argument("--part", action="append", choices=PARTS, help="default: all")
    parser.add_argument("--stride", type=int, default=1, help="run only every N-th boundary")
    parser.add_argument("--runtime", type=Path, default=REPOSITORY / ".venv/bin/ociruntime")
    document = f"also write the table to {DOCUMENT.relative_to(REPOSITORY)}"
    parser.add_argument("--document", action="store_true", help=document)
    parser.add_argument("scenario", nargs="*", metavar="SCENARIO", help="default: all")
    found = parser.parse_args(arguments)
    for name in set(found.scenario) - set(NAMES):
        parser.error(f"no such scenario: {name} (choose from {', '.join(NAMES)})")
    scenarios = found.scenario or list(NAMES)
    program, parts = found.runtime.absolute(), found.part or list(PARTS)
    return Options(program, found.work, parts, scenarios, found.stride, found.document)


class Stop:
    """A request to stop after the current run, which cleans up; a second one stops at once."""

    def __init__(self) -> None:
        self.requested = False

    def __call__(self, number: int, frame: object) -> None:
        """Handle a signal."""
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


class Results:
    """The results of one scenario's part, on disk."""

    def __init__(self, work: Path, scenario: str, part: str) -> None:
        work.mkdir(parents=True, exist_ok=True)
        self.path = work / f"{scenario}.{part}.jsonl"
        self.known = {one["action"]: one for one in self._read()}

    def _read(self) -> Iterator[dict[str, Any]]:
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                yield json.loads(line)

    def add(self, action: str, result: running.Result) -> None:
        record: dict[str, Any] = {
            "action": action,
            "boundary": str(result.boundary) if result.boundary else None,
            "status": result.status,
            "problems": result.problems,
            "message": result.message,
        }
        self.known[action] = record
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def summary(self) -> tuple[int, int, int]:
        """Return (boundaries reached, not reached, deviations)."""
        reached = sum(one["boundary"] is not None for one in self.known.values())
        bad = sum(bool(one["problems"]) for one in self.known.values())
        return reached, len(self.known) - reached, bad


def actions(runner: Runner[One], scenario: One, part: str) -> list[Action]:
    calls = runner.calls(scenario)
    if part == "kill":
        return runner.kills(calls, (COMMAND, CALLER))
    if part == "kill-all":
        return runner.kills(calls, (ALL,))
    if part == "interrupt":
        return running.interruptions(calls)
    return running.failures(calls)


def sweep(options: Options, base: Path, stop: Stop) -> None:
    subprocess.run([options.program, "snapshot", "make"], check=True, stdout=subprocess.DEVNULL)
    stepper = build(base / "stepper")
    stage = running.make_stage(options.program, base, f"octsweep{os.getpid():x}")
    containers = ContainerRunner(stage, stepper)
    with isolation.own_network():
        of_pods = not OF_PODS.keys().isdisjoint(options.scenarios)
        pod_stage = PodStage(options.program, base / "pods") if of_pods else None
        of_daemons = not DAEMONS_BY_NAME.keys().isdisjoint(options.scenarios)
        daemons = DaemonStage(options.program, base / "daemon") if of_daemons else None
        for part in options.parts:
            for name in options.scenarios:
                if name in BY_NAME and BY_NAME[name].obstacle:
                    print(f"{name}: not swept: {BY_NAME[name].obstacle}", file=sys.stderr)
                elif name in BY_NAME:
                    _run_part(containers, BY_NAME[name], part, options, stop)
                elif pod_stage and name in PODS_BY_NAME:
                    _run_part(
                        PodRunner(pod_stage, stepper), PODS_BY_NAME[name], part, options, stop
                    )
                elif part == "interrupt":
                    continue  # nothing interrupts a monitor, and SIGINT ends a daemon as it should
                elif pod_stage and name in MONITORS_BY_NAME:
                    monitor = MonitorRunner(pod_stage, stepper)
                    _run_part(monitor, MONITORS_BY_NAME[name], part, options, stop)
                elif daemons and name in DAEMONS_BY_NAME:
                    _run_part(
                        DaemonRunner(daemons, stepper), DAEMONS_BY_NAME[name], part, options, stop
                    )


def _run_part(runner: Runner[One], scenario: One, part: str, options: Options, stop: Stop) -> None:
    results = Results(options.work, scenario.name, part)
    todo = actions(runner, scenario, part)[:: options.stride]
    shown = 0.0
    for number, action in enumerate(todo, 1):
        name = running.describe(action)
        if name in results.known:
            continue
        if stop.requested:
            raise KeyboardInterrupt
        result = runner.run(scenario, action)
        results.add(name, result)
        if result.problems:
            print(f"{scenario.name}: {name}: {result.boundary}: {result.problems}", flush=True)
        if time.monotonic() - shown > PROGRESS_SECONDS:
            shown = time.monotonic()
            bad = results.summary()[2]
            print(
                f"{scenario.name} {part}: {number} of {len(todo)}, {bad} deviations",
                file=sys.stderr,
                flush=True,
            )


def page(work: Path) -> str:
    """Return a table of all results below the work directory."""
    lines = ["| command | part | runs | not reached | deviations |", "|---|---|---|---|---|"]
    totals: Counter[str] = Counter()
    for part in PARTS:
        for name in NAMES:
            results = Results(work, name, part)
            if not results.known:
                continue
            reached, missed, bad = results.summary()
            totals.update({"reached": reached, "missed": missed, "bad": bad})
            lines.append(f"| {name} | {part} | {reached} | {missed} | {bad} |")
    lines.append(f"| all | | {totals['reached']} | {totals['missed']} | {totals['bad']} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if reason := missing() or ("" if os.geteuid() == 0 else "needs root"):
        print(f"sweep: {reason}", file=sys.stderr)
        return 1
    stop = Stop()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job ignores the first
        signal.signal(number, stop)
    isolation.enter()
    base = Path(tempfile.mkdtemp(prefix="ociruntime-sweep-", dir="/var/tmp"))
    try:
        sweep(options, base, stop)
    except KeyboardInterrupt:
        print("stopped; the next sweep goes on from here", file=sys.stderr)
    finally:
        processes.end(processes.descendants())
        shutil.rmtree(base)
    table = page(options.work)
    print(table)
    if options.document:
        project.replace_block(DOCUMENT, BEGINNING, END, table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
