"""podman as a service of Type=notify whose container sends READY=1 itself."""

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
    """``podman run`` for a unit of Type=notify.

    Podman sends conmon's pid after ``start``: a quick program may be ready before that.
    """
    manager = Manager(work / "manager")
    monkeypatch.setitem(podman.env, "NOTIFY_SOCKET", manager.environment["NOTIFY_SOCKET"])
    script = "probe notify STATUS=begins; probe notify READY=1; exec sleep 100"
    said: list[str] = []
    try:
        podman.background("one", "--sdnotify=container", NAME, "sh", "-c", script)
        wanted = {"READY=1", f"MAINPID={podman.inspect('one', '.State.ConmonPid')}"}
        while not wanted <= set(said):
            said += manager.receive().splitlines()
        assert wanted <= set(said)
    finally:
        manager.close()
