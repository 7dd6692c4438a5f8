#!/usr/bin/env python3
"""What a seccomp profile adds to `create` and `start`, first and again, beside runc and crun.

    sudo bench/seccomp.py                      with the profile of the tests, 20 rounds
    sudo bench/seccomp.py --profile FILE       linux.seccomp as it stands in a config.json

Each round starts three containers with every runtime: one with the filter in a state root that
never saw it, one with it in a state root that did, one without.  The table has medians in
milliseconds, and what the filter costs over none.
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import shutil
import statistics
from pathlib import Path

from lifecycle import (
    REPOSITORY,
    Runtime,
    as_text,
    machine,
    stage,
    timed,
)

KINDS = ("first", "again", "none")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time `create` with a seccomp profile.")
    parser.add_argument("--runtime", action="append", type=Path, metavar="PATH")
    parser.add_argument("--rounds", type=int, default=20, metavar="N")
    parser.add_argument("--profile", type=Path, metavar="FILE",
                        default=REPOSITORY / "tests" / "data" / "seccomp_profile.json")  # fmt: skip
    return parser.parse_args()


def start(runtime: Runtime, bundle: Path, root: Path) -> float:
    """Milliseconds of one `create` and `start`; the container is gone afterwards."""
    base = [str(runtime.path), "--root", str(root)]
    output, pid_file = bundle.parent / "output", bundle.parent / "pid"
    name = f"bench{os.getpid()}"
    took: float = timed(
        [*base, "create", "--bundle", str(bundle), "--pid-file", str(pid_file), name], output
    )
    took += timed([*base, "start", name], output)
    timed([*base, "kill", name, "KILL"], output)
    os.waitpid(int(pid_file.read_text()), 0)
    timed([*base, "delete", name], output)
    return took


def measure(
    runtime: Runtime, bundle: Path, configs: dict[str, str], times: dict[str, list[float]]
) -> None:
    """One round: the profile twice in a fresh state root, then no filter."""
    shutil.rmtree(runtime.root, ignore_errors=True)
    for kind in KINDS:
        (bundle / "config.json").write_text(configs["none" if kind == "none" else "filter"])
        times[kind].append(start(runtime, bundle, runtime.root))


def report(found: list[tuple[Runtime, dict[str, list[float]]]], rounds: int) -> None:
    rows = [["median ms", *KINDS, "+first", "+again"]]
    for runtime, times in found:
        medians = [statistics.median(times[kind]) for kind in KINDS]
        # Of each round's difference: what slows the machine for a while slows both.
        added = [
            statistics.median(map(operator.sub, times[kind], times["none"])) for kind in KINDS[:2]
        ]
        numbers = (*medians, *added)
        rows.append([runtime.name, *(f"{number:.2f}" for number in numbers)])
    print(as_text(rows))
    print(f"\n{machine()}; {rounds} rounds, alternating")


def main() -> None:
    options = arguments()
    with stage(options.runtime) as (bundle, runtimes):
        config = json.loads((bundle / "config.json").read_text())
        configs = {"none": json.dumps(config)}  # on one line, as engines write it
        config["linux"]["seccomp"] = json.loads(options.profile.read_text())
        configs["filter"] = json.dumps(config)
        found: list[tuple[Runtime, dict[str, list[float]]]] = [
            (runtime, {kind: [] for kind in KINDS}) for runtime in runtimes
        ]
        for number in range(options.rounds):
            first = number % len(found)
            for runtime, times in found[first:] + found[:first]:
                measure(runtime, bundle, configs, times)
        report(found, options.rounds)


if __name__ == "__main__":
    main()
