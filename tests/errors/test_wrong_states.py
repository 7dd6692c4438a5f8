"""Every command on a container in every state: success, or a one-line error with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ociruntime.runtime.cli.help import PROGRAM
from tests.support import processes
from tests.support.container import Container
from tests.support.peers import judge_by
from tests.support.plugin import MakeContainer

pytestmark = [pytest.mark.root, judge_by("ociruntime")]

CREATED, RUNNING, PAUSED, STOPPED = STATES = ("created", "running", "paused", "stopped")
EXISTS = "container with given ID already exists"
ENDED = "container not running"
NOT_STOPPED = "that is not stopped"
WRITTEN_DOWN = "only a running or paused container can be checkpointed"
STARTED = "cannot start a container"

# Command -> words behind the id, and state -> what is said; a state that is not here will do.
REFUSED: dict[str, tuple[str, dict[str, str]]] = {
    "start": ("", {RUNNING: "cannot start an already", PAUSED: STARTED, STOPPED: STARTED}),
    "exec": ("true", {PAUSED: "--ignore-paused to override", STOPPED: ENDED}),
    "pause": ("", {STOPPED: ENDED}),
    "resume": ("", {STOPPED: ENDED}),
    "update": ("--pids-limit=50", {STOPPED: ENDED}),
    "ps": ("", {}),
    "state": ("", {}),
    "events": ("--stats", {STOPPED: ENDED}),
    "kill": ("0", {STOPPED: ENDED}),
    "delete": ("", {RUNNING: NOT_STOPPED, PAUSED: NOT_STOPPED}),
    "create": ("--bundle=BUNDLE", dict.fromkeys(STATES, EXISTS)),
    "run": ("--bundle=BUNDLE", dict.fromkeys(STATES, EXISTS)),
    "checkpoint": ("--image-path=WORK/images", dict.fromkeys((CREATED, STOPPED), WRITTEN_DOWN)),
    "mounts": ("FILE", {STOPPED: ENDED}),
}
# To write down what runs takes CRIU and is another test's subject.
CASES = [
    (name, state)
    for name in REFUSED
    for state in STATES
    if name != "checkpoint" or state in REFUSED[name][1]
]


def test_the_table_is_complete() -> None:
    named = {one.name for one in PROGRAM.commands if "ID" in one.synopsis.split()}
    # Before it looks at the container, `restore` needs CRIU and what that has written.
    assert REFUSED.keys() == named - {"restore"}


def bring_to(one: Container, state: str) -> None:
    one.created()
    if state != CREATED:
        one.start().silent()
    if state == PAUSED:
        one.runtime("pause", one.id).silent()
    if state == STOPPED:
        one.kill("KILL").silent()
        assert processes.until(lambda: one.status == STOPPED, 10)


@pytest.mark.parametrize(("name", "state"), CASES)
def test_command(container: MakeContainer, work: Path, name: str, state: str) -> None:
    words, refused = REFUSED[name]
    one = container()
    bring_to(one, state)
    mount = {"destination": "/data", "source": "/tmp", "options": ["bind"]}
    (work / "mounts").write_text(json.dumps([mount]))
    words = words.replace("BUNDLE", str(one.bundle.path)).replace("WORK", str(work))
    verb = ["add"] if name == "mounts" else []
    result = one.runtime(name, *verb, one.id, *words.replace("FILE", f"{work}/mounts").split())
    if state in refused:
        assert result.status == (255 if name == "exec" else 1)
        assert refused[state] in result.message
        assert one.status == state
    else:
        result.ok()
        one.exists = name != "delete"
