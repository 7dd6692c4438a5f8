"""Every command on containers that are frozen in some way, or exiting."""

from __future__ import annotations

import pytest

from tests.faults import unable
from tests.faults.scenarios import Stage
from tests.faults.unable import COMMANDS, CONDITIONS, Condition
from tests.support.peers import judge_by

pytestmark = judge_by("ociruntime")

BY_NAME = {condition.name: condition for condition in CONDITIONS}
FOUND = [
    # eleven seconds, and then "stuck in the kernel"
    ("frozen-above", "delete-force"),
    # success, although nothing ran
    ("frozen-above", "resume"),
    # the init waited for ever for the frozen process
    ("frozen-below", "delete-force"),
    ("frozen-below", "kill-KILL"),
    # "no such file or directory"
    ("dying", "exec"),
]


@pytest.mark.parametrize(("condition", "command"), FOUND)
def test_found(condition: str, command: str, stage: Stage) -> None:
    result = unable.run(stage, BY_NAME[condition], command)
    assert result.problems == [], result.message


def test_message_names_the_frozen_cgroup(stage: Stage) -> None:
    for command in ("delete-force", "resume"):
        result = unable.run(stage, BY_NAME["frozen-above"], command)
        if result.status != 0:
            assert f"{stage.id}above" in result.message
            assert "thaw" in result.message


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda one: one.name)
def test_every_command(condition: Condition, command: str, stage: Stage) -> None:
    result = unable.run(stage, condition, command)
    assert result.problems == [], result.message
