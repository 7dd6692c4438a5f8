"""Commands that lack descriptors, processes, memory, space or a reliable clock.

Each either succeeds or reports what it lacks; none leaves anything behind or hangs.
"""

from __future__ import annotations

import pytest

from tests.faults import starving
from tests.faults.scenarios import Stage
from tests.faults.shortages import SHORTAGES, Shortage
from tests.faults.starving import COMMANDS, Case
from tests.support.peers import judge_by

pytestmark = judge_by("ociruntime")

FOUND = [
    # "cannot find its Python package", a traceback, a death by SIGSEGV: the interpreter's start
    "descriptors-3-state",
    "descriptors-4-create",
    "address-space-1m-kill-python",
    "address-space-8m-exec",
    # the state directory stayed: no descriptor was left to remove it
    "descriptors-5-create",
    "descriptors-6-run",
    # "internal error"
    "descriptors-6-ps",
    "descriptors-9-create",
    # "permission denied"
    "read-only-state-create",
    # "stopped" for a running container, which `delete` then forgot
    "clock-of-boot-ahead-kill",
    "clock-of-boot-behind-delete-running-python",
]
OTHERS = [
    "processes-2-create",
    "memory-2048k-create",
    "state-pages-0-delete-running",
    "read-only-cgroups-create",
]


def by_name(name: str) -> Case:
    return next(case for case in starving.cases() if str(case) == name)


@pytest.mark.parametrize("name", FOUND + OTHERS)
def test_sample(name: str, stage: Stage) -> None:
    result = starving.run(stage, by_name(name))
    assert result.problems == [], result.message


@pytest.mark.long
@pytest.mark.parametrize("shortage", SHORTAGES, ids=lambda one: one.name)
def test_every_command(shortage: Shortage, stage: Stage) -> None:
    found = []
    for scenario in COMMANDS:
        case = Case(scenario, shortage)
        found += [f"{case}: {problem}" for problem in starving.run(stage, case).problems]
    assert found == []
