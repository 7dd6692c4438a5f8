"""Run each mutant under the cases of its clause (``run_mutants.py LAUNCHER [MUTATION...]``).

Prints JSON: mutation -> case -> [status, message].  This is a separate process, because the kit's
pool reaps every orphan as its own.
"""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from conformance.case import Case, discover  # noqa: E402
from conformance.context import Context  # noqa: E402
from conformance.driver import Runtime  # noqa: E402
from conformance.program import probe_path  # noqa: E402
from conformance.runner.pool import Pool, Settings  # noqa: E402
from conformance.runner.versions import known_versions  # noqa: E402
from tests.conformance.mutations import MUTATIONS, ROWS, Mutation  # noqa: E402

AT_A_TIME = 3  # cases of one mutation
# Only `create` looks at a plan; all else is left to the real program.
SCRIPT = """\
#!/bin/sh
for word; do
    case $word in create | run) exec {python} -I -B {mutant} {name} "$@" ;; esac
done
exec {launcher} "$@"
"""


def alive(c: Context) -> None:
    box = c.run(c.bundle("exit 3"))
    c.equal(box.exit_status, 3, "exit status")


ALIVE = Case("alive", "mutants", ("RT-LIFE-03",), "A container runs.", alive)


def script(directory: Path, mutation: Mutation, launcher: str) -> Runtime:
    path = directory / mutation.name.replace(" ", "-").replace("/", "-")
    path.write_text(
        SCRIPT.format(
            python=shlex.quote(sys.executable),
            mutant=shlex.quote(str(Path(__file__).with_name("mutant.py"))),
            name=shlex.quote(mutation.name),
            launcher=shlex.quote(launcher),
        )
    )
    path.chmod(0o755)
    return Runtime(path, mutation.name, "", (), tuple(known_versions()))


def cases_for(mutation: Mutation, cases: list[Case]) -> list[Case]:
    return [
        one
        for one in cases
        if mutation.clause in one.clauses and mutation.case in one.path and not one.exclusive
    ]


class Hunt:
    """Runs a few cases of each mutation at a time, until one detects it."""

    def __init__(self, wanted: list[Mutation], directory: Path, launcher: str) -> None:
        cases = discover()
        self.runtimes = {one.name: script(directory, one, launcher) for one in wanted}
        self.unbroken = script(directory, MUTATIONS["unbroken"], launcher)
        self.waiting = {one.name: cases_for(one, cases) for one in wanted}
        self.found: dict[str, dict[str, list[str]]] = {one.name: {} for one in wanted}
        self.found["unbroken"] = {}

    def noticed(self, name: str) -> bool:
        return any(
            result[0] == "fail" and self.found["unbroken"][case][0] == "pass"
            for case, result in self.found[name].items()
            if case != ALIVE.path
        )

    def step(self, first: bool) -> bool:
        """Take one step; return False if there was nothing to do."""
        pairs = [(ALIVE, one) for one in self.runtimes.values()] if first else []
        baseline: dict[str, Case] = {}
        for name, cases in self.waiting.items():
            if self.noticed(name):
                continue
            own, self.waiting[name] = cases[:AT_A_TIME], cases[AT_A_TIME:]
            pairs += [(one, self.runtimes[name]) for one in own]
            baseline |= {one.path: one for one in own}
        new = [one for path, one in baseline.items() if path not in self.found["unbroken"]]
        pairs += [(one, self.unbroken) for one in new]
        for outcome in Pool(Settings(probe_path(), 2, 20, 10)).run(pairs):
            result = ["fail" if outcome.bad else outcome.status, outcome.text]
            self.found[outcome.runtime.strip()][outcome.case] = result
        return bool(pairs)


def main() -> None:
    launcher, *names = sys.argv[1:]
    wanted = [one for one in ROWS if not names or one.name in names]
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        hunt = Hunt(wanted, Path(place), launcher)
        first = True
        while hunt.step(first):
            first = False
    json.dump(hunt.found, sys.stdout)


if __name__ == "__main__":
    main()
