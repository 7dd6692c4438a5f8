"""Run made-up bundles in the test VM: ``./dev bundles [--count N] [--minutes N]``.

Each boot runs the test of tests/properties/test_create.py on other configurations than before.
How many it has run is appended to build/bundles/runs.jsonl, from which ``./dev score`` takes the
number; what a failed one prints is in build/bundles/failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.properties.test_create import RECORD
from tests.support import project
from tests.v2box import machine
from tests.v2box.machine import REPORTS, SOURCE, Machine

WORK = project.ROOT / "build" / "bundles"
TEST = "tests/properties/test_create.py"
EACH = 40  # examples of the test, before the factor
SECONDS = 3600  # of one boot


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bundles", description=(__doc__ or "").partition(":")[0] + "."
    )
    count = "go on until so many were run, in all calls together (default: %(default)s)"
    parser.add_argument("--count", type=int, default=10_000, metavar="N", help=count)
    minutes = "start no further boot after N minutes (default: no limit)"
    parser.add_argument("--minutes", type=float, default=float("inf"), metavar="N", help=minutes)
    each = "about so many bundles for each boot (default: %(default)s)"
    parser.add_argument("--each", type=int, default=400, metavar="N", help=each)
    return parser.parse_args(arguments)


def recorded() -> int:
    """Return how many bundles were run so far."""
    path = WORK / "runs.jsonl"
    found = path.read_text().splitlines() if path.exists() else []
    return sum(json.loads(line)["tried"] for line in found)


def boot(box: Machine, each: int) -> bool:
    """Boot once and record what was run; return whether all bundles behaved."""
    report = box.reports / "bundles.json"
    report.unlink(missing_ok=True)
    result = box.boot(
        *("env", f"OCIRUNTIME_UNDER_TEST={box.place}/bin/ociruntime"),
        f"{RECORD}={REPORTS}/bundles.json",
        *("PYTHONDONTWRITEBYTECODE=1", f"{box.place}/bin/python", "-P", "-m", "pytest"),
        *("-q", "--tb=short", "-c", f"{SOURCE}/pyproject.toml", "--rootdir", SOURCE),
        # A refresh of the snapshot, which here takes long, would count as a process left behind.
        *("-p", "no:cacheprovider", "--snapshot=none", f"--property-factor={max(each // EACH, 2)}"),
        f"{SOURCE}/{TEST}",
        seconds=SECONDS,
    )
    if result.status != 0:
        with (WORK / "failed").open("a") as file:
            file.write(f"{result.out}\n{result.err}\n")
    if report.exists():
        with (WORK / "runs.jsonl").open("a") as file:
            file.write(json.dumps(json.loads(report.read_text())) + "\n")
    elif result.status != 0:
        raise SystemExit(f"dev: the test VM failed: see {WORK / 'failed'}\n{result.err[-2000:]}")
    return result.status == 0


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    deadline = time.monotonic() + 60 * options.minutes
    WORK.mkdir(parents=True, exist_ok=True)
    status = 0
    try:
        machine.built()
    except machine.NoBox as reason:
        raise SystemExit(f"dev: no test VM: {reason}") from None
    with tempfile.TemporaryDirectory(dir=WORK) as directory:
        box = machine.installed(Path(directory))
        while (left := options.count - recorded()) > 0 and time.monotonic() < deadline:
            status |= not boot(box, min(options.each, left))
            print(f"{recorded()} bundles", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
