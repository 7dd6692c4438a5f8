"""Commands while the filesystem of the bundle, the root or the state root no longer answers.

Commands that do not need it succeed.  The others wait, as for a slow disk; a signal ends them.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.faults import hung
from tests.faults.hung import COMMANDS, PLACES, Place
from tests.faults.scenarios import Stage
from tests.support.peers import judge_by

pytestmark = [
    judge_by("ociruntime"),
    pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="needs /dev/fuse"),
]

BY_NAME = {place.name: place for place in PLACES}
FOUND = [
    # SIGINT, which the interpreter catches, ended nothing
    ("bundle", "create"),
    ("state", "state-python"),
    ("state", "exec"),
    # "interrupted" alone
    ("root", "exec"),
]


@pytest.mark.parametrize(("place", "command"), FOUND)
def test_found(place: str, command: str, stage: Stage) -> None:
    assert hung.run(stage, BY_NAME[place], command, signal.SIGINT) == []


@pytest.mark.long
@pytest.mark.parametrize("place", ["bundle", "root"])
def test_requests_that_are_lost(place: str, stage: Stage) -> None:
    """A server that has read a request blocks the process in the kernel until it answers.

    Then the init cannot be killed; `delete` waits for it, but not forever, and can be interrupted.
    """
    assert hung.run(stage, BY_NAME[place], "delete", signal.SIGINT, "lossy") == []


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("place", PLACES, ids=lambda one: one.name)
def test_every_command(place: Place, command: str, number: int, stage: Stage) -> None:
    assert hung.run(stage, place, command, number) == []
