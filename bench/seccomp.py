#!/usr/bin/env python3
"""What a seccomp profile adds to `create`, the first time and again, beside runc and crun.

    sudo bench/seccomp.py                      with the profile of the tests, 20 rounds
    sudo bench/seccomp.py --profile FILE       linux.seccomp as it stands in a config.json

Each round creates three containers with every runtime: one without a filter, one with it in a
state root that never saw it, one with it in a state root that did.  The table has medians in
milliseconds, and what the filter costs over none.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from lifecycle import (
    PR_SET_CHILD_SUBREAPER,
    REPOSITORY,
    Runtime,
    as_text,
    default_runtimes,
    enter_mount_namespace,
    hugetlb_as_v1,
    machine,
    make_bundle,
    open_runtime,
    timed,
)

KINDS = ("none", "first", "again")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time `create` with a seccomp profile.")
    parser.add_argument("--runtime", action="append", type=Path, metavar="PATH")
    parser.add_argument("--rounds", type=int, default=20, metavar="N")
    parser.add_argument("--profile", type=Path, metavar="FILE",
                        default=REPOSITORY / "tests" / "data" / "seccomp_profile.json")  # fmt: skip
    return parser.parse_args()


def create(runtime: Runtime, bundle: Path, root: Path) -> float:
    """Milliseconds of one `create`; the container is gone afterwards."""
    base = [str(runtime.path), "--root", str(root)]
    output, pid_file = bundle.parent / "output", bundle.parent / "pid"
    name = f"bench{os.getpid()}"
    took: float = timed(
        [*base, "create", "--bundle", str(bundle), "--pid-file", str(pid_file), name], output
    )
    timed([*base, "kill", name, "KILL"], output)
    os.waitpid(int(pid_file.read_text()), 0)
    timed([*base, "delete", name], output)
    return took


def measure(
    runtime: Runtime, bundle: Path, configs: dict[str, str], times: dict[str, list[float]]
) -> None:
    """One round: a state root without a filter, then the same profile twice in a fresh one."""
    shutil.rmtree(runtime.root, ignore_errors=True)
    for kind in KINDS:
        (bundle / "config.json").write_text(configs["none" if kind == "none" else "filter"])
        times[kind].append(create(runtime, bundle, runtime.root))


def report(found: list[tuple[Runtime, dict[str, list[float]]]], rounds: int) -> None:
    rows = [["median ms", *KINDS, "+first", "+again"]]
    for runtime, times in found:
        none, first, again = (statistics.median(times[kind]) for kind in KINDS)
        numbers = (none, first, again, first - none, again - none)
        rows.append([runtime.name, *(f"{number:.2f}" for number in numbers)])
    print(as_text(rows))
    print(f"\n{machine()}; {rounds} rounds, alternating")


def main() -> None:
    options = arguments()
    if os.geteuid() != 0:
        sys.exit("needs root")
    enter_mount_namespace()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    paths = [path.absolute() for path in options.runtime or default_runtimes()]
    hugetlb = hugetlb_as_v1() if any(path.name == "crun" for path in paths) else None
    try:
        with tempfile.TemporaryDirectory(prefix="ociruntime-bench-", dir="/var/tmp") as place:
            bundle = make_bundle(Path(place), paths[0])
            config = json.loads((bundle / "config.json").read_text())
            configs = {"none": json.dumps(config, indent=2)}
            config["linux"]["seccomp"] = json.loads(options.profile.read_text())
            configs["filter"] = json.dumps(config, indent=2)
            found: list[tuple[Runtime, dict[str, list[float]]]] = [
                (open_runtime(path, Path(place, f"root{number}")), {kind: [] for kind in KINDS})
                for number, path in enumerate(paths)
            ]
            for number in range(options.rounds):
                first = number % len(found)
                for runtime, times in found[first:] + found[:first]:
                    measure(runtime, bundle, configs, times)
            report(found, options.rounds)
    finally:
        if hugetlb is not None:
            subprocess.run(["umount", str(hugetlb)], check=True)
            if not any(hugetlb.iterdir()):
                hugetlb.rmdir()


if __name__ == "__main__":
    main()
