"""Each case can fail: a plan with a single defect fails the cases of the right clause."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.mutations import ROWS, Mutation
from tests.support.plugin import runtime_path
from tests.support.runtime import kind_of

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(300)]
ALIVE = "mutants::alive"

Results = dict[str, dict[str, tuple[str, str]]]


@pytest.fixture(scope="module")
def results(pytestconfig: pytest.Config) -> Results:
    path = runtime_path(pytestconfig)
    if os.geteuid() != 0 or path is None or kind_of(path) != "ociruntime":
        pytest.skip("needs root and ociruntime")
    script = Path(__file__).with_name("run_mutants.py")
    done = subprocess.run([sys.executable, script, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {
        name: {case: (status, message) for case, (status, message) in cases.items()}
        for name, cases in json.loads(done.stdout).items()
    }


def test_there_are_enough() -> None:
    assert len({one.name for one in ROWS}) == len(ROWS) >= 40


@pytest.mark.long
@pytest.mark.parametrize("mutation", ROWS, ids=lambda one: one.name.replace(" ", "-"))
def test_noticed(mutation: Mutation, results: Results) -> None:
    found = dict(results[mutation.name])
    alive = found.pop(ALIVE)
    sound = {case for case in found if results["unbroken"][case][0] == "pass"}
    reasons = {results["unbroken"][case][1] for case in found}
    if not sound and all(results["unbroken"][case][0] == "skip" for case in found) and found:
        pytest.skip(f"{mutation.clause}: {'; '.join(sorted(reasons))}")
    assert sound, f"no case of {mutation.clause} passes unbroken"
    assert mutation.deadly or alive[0] == "pass", f"nothing works with it: {alive[1]}"
    assert [case for case in sound if found[case][0] == "fail"], sorted(sound)
