"""``ocictl update``: limits and the restart policy of running and stopped containers."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support import processes
from tests.support.daemon import STAYS, Daemon

MEGABYTES = 1 << 20


def limits(daemon: Daemon, ref: str) -> dict[str, Any]:
    """Return the limits of the running container."""
    usage: dict[str, Any] = daemon("GET", f"/v1/containers/{ref}/stats").ok()
    return {name: usage[name] for name in ("memory_limit", "pids_limit")}


@pytest.fixture
def up(daemon: Daemon, shell_root: str) -> Daemon:
    """A daemon with a container ``up``."""
    daemon.run("up", rootfs=shell_root, command=STAYS, memory=64 * MEGABYTES, cpus=0.5)
    return daemon


def test_a_running_container(up: Daemon) -> None:
    pid = up.get("up")["pid"]
    words = ("--memory", "96m", "--pids-limit", "50", "--cpu-shares", "512", "--restart", "always")
    assert up.ctl("update", *words, "up").ok().out == "up\n"
    changed = {"memory_limit": 96 * MEGABYTES, "pids_limit": 50}
    assert limits(up, "up") == changed
    assert up.get("up")["pid"] == pid
    form = "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{.HostConfig.RestartPolicy.Name}}"
    assert up.ctl("inspect", "-f", form, "up").ok().out == "100663296 500000000 always\n"
    # A restart in the same pod, one by the policy, and one in a new pod have the new limits.
    up.ctl("restart", "-t", "0", "up").ok()
    assert limits(up, "up") == changed
    os.kill(up.get("up")["pid"], signal.SIGKILL)
    assert processes.until(lambda: up.get("up")["restart_count"] > 0, 30)
    up.wait_for("up", "running")
    assert limits(up, "up") == changed
    up.stop()
    up.start()
    assert up.get("up")["spec"]["memory"] == 96 * MEGABYTES
    kinds = [event["kind"] for event in up.recorded_events()]
    assert "update" in kinds


def test_a_stopped_container(up: Daemon) -> None:
    up.ctl("stop", "-t", "0", "up").ok()
    up.ctl("update", "-m", "80m", "up").ok()
    up.ctl("start", "up").ok()
    assert limits(up, "up")["memory_limit"] == 80 * MEGABYTES
    # Also in the pod that replaces one that somebody has removed.
    before = up.get("up")["pod"]
    up.pods("stop", "--force", "--wait", before).ok()
    up.pods("rm", before).ok()
    up.wait_for("up", "stopped")
    up.ctl("start", "up").ok()
    assert limits(up, "up")["memory_limit"] == 80 * MEGABYTES
    assert up.get("up")["pod"] != before


def test_a_paused_container(up: Daemon) -> None:
    up.ctl("pause", "up").ok()
    up.ctl("update", "--pids-limit", "33", "up").ok()
    assert limits(up, "up")["pids_limit"] == 33
    assert up.status("up") == "paused"
    up.ctl("unpause", "up").ok()


REFUSED: tuple[tuple[object, str], ...] = (
    ({"memory": "64m"}, "memory: "),
    ({"memory": 1}, "memory: "),
    ({"memory_swap": 1 << 40, "memory": 0}, "memory: "),
    ({"memory": 1 << 30, "memory_swap": 1 << 20}, "memory_swap: "),
    ({"cpus": 0}, "cpus: "),
    ({"cpu_quota": 1000}, "cpus: "),
    ({"cpu_shares": True}, "cpu_shares: "),
    ({"pids_limit": 0}, "pids_limit: "),
    ({"cpuset_cpus": "a"}, "cpuset_cpus: "),
    ({"cpuset_cpus": "0\n1"}, "cpuset_cpus: "),
    ({"restart_policy": "always"}, "restart_policy: "),
    ({"restart_policy": {"name": "perhaps"}}, "restart_policy.name: "),
    ({"privileged": True}, "privileged: unknown member"),
    ({"command": ["/bin/sh"]}, "command: unknown member"),
    ({"env": {"A": "1"}}, "env: unknown member"),
    ({}, "no change given"),
    (["memory"], "JSON object"),
)


def test_what_is_refused_changes_nothing(up: Daemon) -> None:
    before, now = up.get("up"), limits(up, "up")
    for body, path in REFUSED:
        up.verb("up", "update", body).failed(400, path)
        assert (up.get("up"), limits(up, "up")) == (before, now), body


def test_a_limit_that_the_kernel_refuses_changes_nothing(up: Daemon) -> None:
    """The host lacks the CPU; the other limit is not set either."""
    before, now = up.get("up"), limits(up, "up")
    body = {"cpuset_cpus": "8000", "pids_limit": 44, "restart_policy": {"name": "always"}}
    up.verb("up", "update", body).failed(500, 'update container "up"')
    assert (up.get("up"), limits(up, "up")) == (before, now)
    up.ctl("restart", "-t", "0", "up").ok()
    assert limits(up, "up") == now


def test_no_restart_after_the_policy_was_changed(daemon: Daemon, shell_root: str) -> None:
    policy = {"name": "always"}
    daemon.run("c1", rootfs=shell_root, command=["/bin/false"], restart_policy=policy)
    assert processes.until(lambda: daemon.get("c1")["restart_count"] > 2, 30)
    daemon.ctl("update", "--restart", "no", "c1").ok()
    daemon.wait_for("c1", "stopped")
    count = daemon.get("c1")["restart_count"]
    assert daemon.ctl("wait", "c1").ok().out == "1\n"
    assert (daemon.status("c1"), daemon.get("c1")["restart_count"]) == ("stopped", count)


def test_which_container(daemon: Daemon, shell_root: str) -> None:
    daemon.create("c1", rootfs=shell_root, command=STAYS, auto_remove=True)
    result = daemon.ctl("update", "--memory", "64m", "nope", "c1")
    assert (result.status, result.out) == (1, "c1\n")
    assert "nope" in result.err
    daemon.ctl("update", "c1").failed("no change given")
    daemon.ctl("update", "--restart", "always", "c1").failed(
        "--restart: cannot be combined", "--rm"
    )
    daemon.ctl("update", "--memory", "x", "c1").failed("memory")
    record = Path(daemon.root / "containers" / daemon.get("c1")["id"] / "container.state")
    record.write_text("{")
    daemon.stop()
    daemon.start()
    daemon.ctl("update", "--memory", "64m", record.parent.name).failed("it is corrupt")
    daemon.remove(record.parent.name)
