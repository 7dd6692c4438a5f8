"""Run a few cases with every outcome in the kit's pool; print their outcomes as JSON.

This is a separate process, because the pool reaps every orphan as its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from conformance import cgroups
from conformance.case import Case
from conformance.context import Context
from conformance.driver import Runtime
from conformance.runner.pool import Pool, Settings


def good(c: Context) -> None:
    c.equal(1, 1, "one")


def bad(c: Context) -> None:
    c.equal(1, 2, "one")


def skipped(c: Context) -> None:
    c.skip("no such thing here")


def faulty(_: Context) -> None:
    raise KeyError("x")


def hanging(_: Context) -> None:
    time.sleep(60)


def ending(c: Context) -> None:
    c.make_cgroups(f"of-{os.getppid()}")
    os.kill(os.getpid(), signal.SIGKILL)


def hanging_command(c: Context) -> None:
    c.shell.run(["/bin/sleep", "60"])


def leaving_process(c: Context) -> None:
    c.shell.run(["/bin/sh", "-c", "sleep 60 &"])


def leaving_file(c: Context) -> None:
    Path("/run", f"{c.token}-left").touch()


def apart(_: Context) -> None:
    time.sleep(0.05)


FATES: tuple[Callable[[Context], None], ...] = (
    *(good, bad, skipped, faulty, hanging, ending),
    *(hanging_command, leaving_process, leaving_file, apart),
)


def main() -> None:
    runtime = Runtime(Path("/bin/false"), "none", "1")
    cases = [
        Case(one.__name__, "fates", ("RT-STATE-01",), "x", one, exclusive=one is apart)
        for one in FATES
    ]
    pool = Pool(Settings(Path("/bin/true"), jobs=3, timeout=1.5, command_timeout=0.5))
    places = [one.point / f"{pool.token}9-late" for one in cgroups.hierarchies()]
    for place in places:
        place.mkdir()
    outcomes = list(pool.run([(case, runtime) for case in cases]))
    document = {one.case: one.as_json() for one in outcomes}
    document["directory"] = {"left": pool.directory.exists()}
    groups = sorted(map(str, cgroups.named(f"-of-{os.getpid()}")))
    document["cgroups"] = {"left": groups}
    document["late cgroups"] = {"left": [str(place) for place in places if place.exists()]}
    json.dump(document, sys.stdout)


if __name__ == "__main__":
    main()
