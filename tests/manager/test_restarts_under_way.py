"""Requests while a container is being restarted."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support import processes
from tests.support.daemon import RUNTIME, STAYS, Daemon

# It fails the first time, and stays from then on.
FAILS_ONCE = ["/bin/sh", "-c", "busybox test -e /again || { echo > /again; exit 1; }; sleep 600"]
# The second container that it is to create is made when there is a file "go".
WAITS = """#!/bin/sh
case " $* " in
*" create "*)
    echo >> {work}/creations
    if [ $(wc -l < {work}/creations) = 2 ]; then
        while ! [ -e {work}/go ]; do sleep 0.02; done
    fi
esac
exec {runtime} "$@"
"""


def policy(name: str) -> dict[str, Any]:
    return {"restart_policy": {"name": name}}


def clients(daemon: Daemon) -> int:
    """Return the number of connected clients."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return sum(line.endswith(f" {daemon.socket}") for line in lines) - 1


def has_arrived(daemon: Daemon) -> None:
    """Return whether the daemon has read the only unanswered request."""
    processes.until(lambda: clients(daemon) == 1, 5)
    daemon("GET", "/v1/ping").ok()


@pytest.mark.parametrize("how", ["stop", "restart", "remove"])
def test_while_its_program_is_started(
    daemon: Daemon, shell_root: str, work: Path, how: str
) -> None:
    runtime = work / "waits"
    runtime.write_text(WAITS.format(work=work, runtime=RUNTIME))
    runtime.chmod(0o755)
    daemon.kill()
    daemon.start(f"--runtime={runtime}")
    creations = work / "creations"
    one = daemon.run("c1", rootfs=shell_root, command=FAILS_ONCE, **policy("always"))
    with ThreadPoolExecutor(1) as pool:
        try:
            assert processes.until(lambda: creations.read_text().count("\n") == 2, 30)
            if how == "remove":
                asked = pool.submit(daemon, "DELETE", f"/v1/containers/{one}?force=1")
            else:
                asked = pool.submit(daemon.verb, one, how)
            has_arrived(daemon)
        finally:
            (work / "go").touch()
        answer = asked.result(60).ok()
    if how == "remove":
        assert daemon.pods.pods() == []
        return
    state = daemon.pods.path(daemon.get(one)["pod"]) / "apps" / "app" / "state.json"
    if how == "stop":
        assert answer["changed"]
        assert daemon.get(one)["status"] == "stopped"
        assert '"exited"' in state.read_text()
        assert creations.read_text().count("\n") == 2
    else:
        assert daemon.get(one)["status"] == "running"
        assert creations.read_text().count("\n") == 3


@pytest.mark.parametrize("how", ["stop", "remove"])
def test_while_its_pod_is_run_again(daemon: Daemon, shell_root: str, how: str) -> None:
    """The pod does not keep running without a container."""
    one = daemon.run("c1", rootfs=shell_root, command=STAYS, **policy("unless-stopped"))
    uuid = daemon.get(one)["pod"]
    daemon.kill()
    os.kill(daemon.pods.monitor(uuid)["pid"], signal.SIGKILL)
    daemon.pods.wait_for(uuid, "exited")
    (daemon.pods.path(uuid) / "apps/app/upper/kept").touch()
    daemon.start(fault="runagain.after-lock:stop")

    def held() -> list[int]:
        return [pid for pid in processes.descendants() if processes.state(pid) == "T"]

    assert processes.until(lambda: len(held()) == 1, 30)
    (pid,) = held()
    with ThreadPoolExecutor(1) as pool:
        try:
            if how == "remove":
                asked = pool.submit(daemon, "DELETE", f"/v1/containers/{one}?force=1")
            else:
                asked = pool.submit(daemon.verb, one, "stop")
            has_arrived(daemon)
        finally:
            os.kill(pid, signal.SIGCONT)
        asked.result(60).ok()
    assert processes.until(lambda: not processes.alive(pid))
    daemon.pods.look()
    if how == "remove":
        assert daemon.pods.pods() == []
        return
    assert daemon.get(one)["status"] == "stopped"
    daemon.kill()
    daemon.start()
    daemon.verb(one, "start").ok()
    assert daemon.pods.pods() == [uuid]
    assert (daemon.pods.path(uuid) / "apps/app/upper/kept").exists()


def test_restarting_one_that_goes_with_its_end(daemon: Daemon, shell_root: str) -> None:
    one = daemon.run("c1", rootfs=shell_root, command=STAYS, auto_remove=True)
    daemon.verb(one, "restart").ok()
    time.sleep(1)  # in which it would be removed
    assert daemon.status(one) == "running"
    daemon.verb(one, "stop").ok()
    daemon.wait_for(one, "gone")
    assert processes.until(lambda: daemon.pods.pods() == [])
