"""Run made-up bundles in the test VM: ``./dev bundles [--count N] [--minutes N]``.

Each boot runs the test of tests/properties/test_create.py on other configurations than before.
With ``--here``, this machine replaces the test VM, if it is a virtual machine itself: it is about
ten times as fast, and has another cgroup version.  The number of bundles is appended to
build/bundles/runs.jsonl, from which ``./dev score`` takes it; the output of failed runs is in
build/bundles/failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
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
    here = "run them on this machine, which must be a virtual machine that may be lost"
    parser.add_argument("--here", action="store_true", help=here)
    return parser.parse_args(arguments)


def recorded() -> int:
    """Return the number of bundles run so far."""
    path = WORK / "runs.jsonl"
    found = path.read_text().splitlines() if path.exists() else []
    return sum(json.loads(line)["tried"] for line in found)


def boot(box: Machine, each: int) -> bool:
    """Boot once and record the runs; return whether all bundles behaved."""
    report = box.reports / "bundles.json"
    report.unlink(missing_ok=True)
    result = box.boot(
        *("env", f"OCIRUNTIME_UNDER_TEST={box.place}/bin/ociruntime"),
        f"{RECORD}={REPORTS}/bundles.json",
        *("PYTHONDONTWRITEBYTECODE=1", f"{box.place}/bin/python", *pytest_words(each)),
        # A refresh of the snapshot, which here takes long, would count as a process left behind.
        *("-c", f"{SOURCE}/pyproject.toml", "--rootdir", SOURCE, "--snapshot=none"),
        f"{SOURCE}/{TEST}",
        seconds=SECONDS,
    )
    return note(report, result.status, f"{result.out}\n{result.err}")


def run_here(each: int) -> bool:
    """Do on this machine what ``boot`` does in the test VM."""
    report = WORK / "bundles.json"
    report.unlink(missing_ok=True)
    result = subprocess.run(
        [sys.executable, *pytest_words(each), TEST],
        cwd=project.ROOT,
        env={**os.environ, RECORD: str(report)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return note(report, result.returncode, result.stdout)


def pytest_words(each: int) -> list[str]:
    factor = f"--property-factor={max(each // EACH, 2)}"
    return ["-P", "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", factor]


def note(report: Path, status: int, printed: str) -> bool:
    """Record the runs and the output of a failed one; return whether all bundles behaved."""
    if status != 0:
        with (WORK / "failed").open("a") as file:
            file.write(f"{printed}\n")
    if report.exists():
        with (WORK / "runs.jsonl").open("a") as file:
            file.write(json.dumps(json.loads(report.read_text())) + "\n")
    elif status != 0:
        raise SystemExit(f"dev: the tests did not run: see {WORK / 'failed'}\n{printed[-2000:]}")
    return status == 0


def is_virtual_machine() -> bool:
    """Return whether this machine has a hypervisor (a CPU flag on x86-64)."""
    words = Path("/proc/cpuinfo").read_text().partition("\nflags")[2].partition("\n")[0].split()
    return "hypervisor" in words


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    deadline = time.monotonic() + 60 * options.minutes
    WORK.mkdir(parents=True, exist_ok=True)
    if options.here and not is_virtual_machine():
        raise SystemExit("dev: --here: this is not a virtual machine, which a bundle may damage")
    status = 0
    with tempfile.TemporaryDirectory(dir=WORK) as directory:
        try:
            if not options.here:
                machine.built()
            box = None if options.here else machine.installed(Path(directory))
        except machine.NoBox as reason:
            raise SystemExit(f"dev: no test VM: {reason}") from None
        while (left := options.count - recorded()) > 0 and time.monotonic() < deadline:
            each = min(options.each, left)
            status |= not (boot(box, each) if box else run_here(each))
            print(f"{recorded()} bundles", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
