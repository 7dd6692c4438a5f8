"""Restart policies: which containers are restarted, and which are not."""

from __future__ import annotations

import os
import signal
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from tests.support import processes
from tests.support.daemon import STAYS, Daemon


@pytest.fixture
def daemon(shared_daemon: Daemon) -> Daemon:
    return shared_daemon


def policy(name: str, maximum: int = 0) -> dict[str, Any]:
    return {"restart_policy": {"name": name, "maximum": maximum}}


def starts(daemon: Daemon, identifier: str) -> list[datetime]:
    """Return the times at which the container was started."""
    return [
        datetime.fromisoformat(event["attributes"]["at"])
        for event in daemon.recorded_events()
        if event["kind"] == "start" and event["id"] == identifier
    ]


def test_on_failure_so_many_times(daemon: Daemon, shell_root: str) -> None:
    """100 ms before the second start, then twice as long each time."""
    command = ["/bin/sh", "-c", "exit 3"]
    one = daemon.run("c1", rootfs=shell_root, command=command, **policy("on-failure", 3))
    assert processes.until(lambda: len(starts(daemon, one)) == 4, 30)
    found = daemon.wait_for(one, "stopped")
    assert (found["exit_code"], found["restart_count"]) == (3, 3)
    times = starts(daemon, one)
    pauses = [(after - before).total_seconds() for before, after in pairwise(times)]
    assert [pause >= least for pause, least in zip(pauses, (0.1, 0.2, 0.4), strict=True)] == [
        True
    ] * 3
    daemon.verb(one, "start").ok()
    assert daemon.get(one)["restart_count"] < 3, "it was begun anew"
    daemon.verb(one, "stop").ok()


def test_a_success_is_no_failure(daemon: Daemon, shell_root: str) -> None:
    command = ["/bin/sh", "-c", "echo x >> /runs; busybox test -e /again; sleep 0.2; exit 0"]
    one = daemon.run("c1", rootfs=shell_root, command=command, **policy("on-failure"))
    other = daemon.run("c2", rootfs=shell_root, command=["/bin/false"])
    assert daemon.verb(one, "wait").ok()["exit_code"] == 0
    daemon.wait_for(other, "stopped")
    always = daemon.run("c3", rootfs=shell_root, command=["/bin/true"], **policy("always"))
    assert processes.until(lambda: len(starts(daemon, always)) >= 3)
    assert (len(starts(daemon, one)), len(starts(daemon, other))) == (1, 1)
    assert daemon.get(one)["status"] == "stopped"
    daemon("DELETE", f"/v1/containers/{always}?force=1").ok()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_what_the_user_has_ended_stays_so(daemon: Daemon, shell_root: str, how: str) -> None:
    one = daemon.run("c1", rootfs=shell_root, command=STAYS, **policy("always"))
    daemon.verb(one, how).ok()
    daemon.wait_for(one, "stopped")
    daemon.verb(one, "wait", {"condition": "not-running"}).ok()
    assert daemon.get(one)["restart_count"] == 0
    assert len(starts(daemon, one)) == 1


def test_what_somebody_else_has_killed_is_started(daemon: Daemon, shell_root: str) -> None:
    one = daemon.run("c1", rootfs=shell_root, command=STAYS, **policy("unless-stopped"))
    os.kill(daemon.get(one)["pid"], signal.SIGKILL)
    assert processes.until(lambda: len(starts(daemon, one)) == 2)
    assert daemon.get(one)["restart_count"] == 1
    # Also if the pod's monitor goes with it.
    before = daemon.get(one)["pod"]
    os.kill(daemon.pods.monitor(before)["pid"], signal.SIGKILL)
    assert processes.until(lambda: len(starts(daemon, one)) == 3, 30)
    assert daemon.wait_for(one, "running")["pod"] == before


def test_stopping_while_a_start_is_pending(daemon: Daemon, shell_root: str) -> None:
    one = daemon.run("c1", rootfs=shell_root, command=["/bin/false"], **policy("always"))
    assert processes.until(lambda: len(starts(daemon, one)) == 4)
    daemon("DELETE", f"/v1/containers/{one}").failed(409, "c1")
    daemon.verb(one, "stop").ok()
    assert daemon.get(one)["status"] == "stopped"
    count = len(starts(daemon, one))
    daemon("DELETE", f"/v1/containers/{one}").ok()
    assert len(starts(daemon, one)) == count


def test_with_a_new_daemon(daemon: Daemon, shell_root: str) -> None:
    """``always`` also starts stopped containers, ``unless-stopped`` does not."""
    for name in (
        *("no-ended", "on-failure-ended", "always-ended", "unless-stopped-ended", "no-kept"),
        *("always-kept", "always-stopped", "unless-stopped-stopped"),
    ):
        kind, _, state = name.rpartition("-")
        command = ["/bin/sh", "-c", "sleep 1; exit 1"] if state == "ended" else STAYS
        daemon.run(name, rootfs=shell_root, command=command, **policy(kind))
        if state == "stopped":
            daemon.verb(name, "stop").ok()
    daemon.create("always-created", rootfs=shell_root, command=STAYS, **policy("always"))
    kept = {one["name"]: one["pid"] for one in daemon.list() if one["name"].endswith("-kept")}
    pids = [one["pid"] for one in daemon.list() if one["name"].endswith("-ended") and one["pid"]]
    daemon.kill()
    assert processes.until(lambda: not any(processes.alive(pid) for pid in pids))
    daemon.start()
    wanted = {"always-stopped", "always-ended", "on-failure-ended", "unless-stopped-ended"}

    def started() -> set[str]:
        return {
            one["name"]
            for one in daemon.list()
            if one["restart_count"] or (one["name"], one["status"]) == ("always-stopped", "running")
        }

    assert processes.until(lambda: started() >= wanted, 30), started()
    shown = {one["name"]: one for one in daemon.list()}
    assert started() == wanted
    assert {name: shown[name]["pid"] for name in kept} == kept
    assert shown["always-created"]["status"] == "created"
    assert shown["unless-stopped-stopped"]["status"] == "stopped"
    for one in shown.values():
        daemon.remove(one["id"])
