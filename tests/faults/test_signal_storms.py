"""Storms of signals at `run` and `exec` in the foreground: the exit status, and the container."""

from __future__ import annotations

import pytest

from tests.faults import storms
from tests.faults.scenarios import Stage
from tests.faults.storms import Storm
from tests.support.peers import judge_by

pytestmark = judge_by("ociruntime")

ALL = list(storms.storms())
SAMPLE = [Storm("run", "TERM", 0.02), Storm("run", "WINCH", 0.0), Storm("exec", "USR1", 0.08)]


@pytest.mark.parametrize("storm", SAMPLE, ids=str)
def test_sample(storm: Storm, stage: Stage) -> None:
    result = storms.run(stage, storm)
    assert result.problems == [], result.message


@pytest.mark.long
@pytest.mark.parametrize("storm", ALL, ids=str)
def test_storm(storm: Storm, stage: Stage) -> None:
    result = storms.run(stage, storm)
    assert result.problems == [], result.message
