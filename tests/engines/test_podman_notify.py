"""podman as a service of Type=notify, whose container says itself when it is ready."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.image import NAME
from tests.engines.podman import Podman
from tests.support.notify import Manager
from tests.support.peers import judge_by


@judge_by("ociruntime", "crun")
def test_program_that_says_when_it_is_ready(
    podman: Podman, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``podman run`` for a unit of Type=notify: conmon has told of itself by then."""
    manager = Manager(work / "manager")
    monkeypatch.setitem(podman.env, "NOTIFY_SOCKET", manager.environment["NOTIFY_SOCKET"])
    script = "probe notify STATUS=begins; probe notify READY=1; exec sleep 100"
    podman.background("one", "--sdnotify=container", NAME, "sh", "-c", script)
    said = []
    while "READY=1" not in said:
        said += manager.receive().splitlines()
    conmon = podman.inspect("one", ".State.ConmonPid")
    assert f"MAINPID={conmon}" in said
    manager.close()
