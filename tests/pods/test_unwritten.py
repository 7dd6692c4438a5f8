"""Apps whose records cannot be written to disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ociruntime.pods.store import phases
from ociruntime.pods.store.control_client import ask
from tests.pods.sandbox import Sandbox
from tests.support import processes
from tests.support.ocipod import Ocipod


@pytest.fixture
def sandbox(ocipod: Ocipod, work: Path) -> Sandbox:
    return Sandbox(ocipod, work)


def in_the_way(ocipod: Ocipod, sandbox: Sandbox, name: str) -> list[Path]:
    """Return the paths at which directories prevent the app's files from being written."""
    place = ocipod.path(sandbox.uuid) / "apps" / name
    return [place / "status.new", place / "state.json.new"]


def test_a_start_that_cannot_be_written_down(ocipod: Ocipod, sandbox: Sandbox) -> None:
    sandbox.add("one", "exec sleep 60")
    files = in_the_way(ocipod, sandbox, "one")
    for file in files:
        file.mkdir()
    for _ in range(2):
        started = ocipod("app", "start", sandbox.uuid, "--app=one")
        started.failed('write "apps/one/state.json": is a directory')
    for file in files:
        file.rmdir()
    sandbox.do("start", "one")
    assert sandbox.status("one")["state"] == "running"


def test_an_end_that_cannot_be_written_down(ocipod: Ocipod, sandbox: Sandbox) -> None:
    """It is written as soon as possible; the pod and its other apps continue."""
    sandbox.start("one", "until [ -e /end ]; do sleep 0.05; done", "exit 7")
    sandbox.start("two", "exec sleep 60")
    files = in_the_way(ocipod, sandbox, "one")
    for file in files:
        file.mkdir()
    ocipod("app", "exec", "--app=one", sandbox.uuid, "touch", "/end").ok()
    with phases.open_pod(str(ocipod.directory), sandbox.uuid) as pod:
        assert processes.until(
            lambda: ask(pod, {"op": "status"}, 20)["apps"]["one"]["state"] == "exited"
        )
    sandbox.do("stop", "one")  # it waits for what is still to be done
    assert sandbox.states() == {"one": "running", "two": "running"}
    for file in files:
        file.rmdir()
    sandbox.wait("one", "exited")
    assert sandbox.status("one")["exit_code"] == "7"
    assert files[0].with_suffix("").read_text() == "7\n"
    for file in files:
        file.mkdir()
    sandbox.do("rm", "one")
    assert sandbox.states() == {"two": "running"}


def test_a_stop_that_cannot_be_written_down(ocipod: Ocipod, sandbox: Sandbox) -> None:
    sandbox.start("one", "exec sleep 60")
    for file in in_the_way(ocipod, sandbox, "one"):
        file.mkdir()
    ocipod("stop", "--wait", sandbox.uuid).ok()
    path = ocipod.path(sandbox.uuid)
    ended = {"code": 0, "reason": "", "clean": True}
    assert json.loads((path / "exit").read_text()) == ended
    assert 'write "apps/one/status": is a directory' in (path / "monitor.log").read_text()
