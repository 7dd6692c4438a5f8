"""A daemon is killed at any moment: the next one recovers."""

from __future__ import annotations

import os
import re
import signal
import time
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.daemon import STAYS, Daemon

COUNTS = ["/bin/sh", "-c", "i=0; while :; do i=$((i + 1)); echo $i; sleep 0.1; done"]


def log_of(daemon: Daemon, ref: str) -> list[str]:
    """Return the container's output."""
    file = daemon.pods.path(daemon.get(ref)["pod"]) / "logs" / "app.log"
    return [line.split(" ", 3)[3] for line in file.read_text().splitlines()]


def ids_on_disk(daemon: Daemon) -> list[str]:
    return sorted(path.name for path in (daemon.root / "containers").iterdir())


def kill_monitor(daemon: Daemon, uuid: str) -> None:
    """Kill the monitor like a crash of the machine: no file of the pod is written any more."""
    os.kill(daemon.pods.monitor(uuid)["pid"], signal.SIGKILL)
    daemon.pods.wait_for(uuid, "exited")


def test_all_at_once(daemon: Daemon, shell_root: str) -> None:
    root = {"rootfs": shell_root}
    running = daemon.run("c1", command=COUNTS, **root)
    soon = ["/bin/sh", "-c", "sleep 0.5; exit 3"]
    daemon.run("c2", command=soon, **root)
    corrupt = daemon.create("c5", command=STAYS, **root)
    lost = daemon.run("c4", command=["/bin/sh", "-c", "echo kept > /kept; sleep 600"], **root)
    lost_pod = daemon.get(lost)["pod"]
    always = {"restart_policy": {"name": "unless-stopped"}}
    again = daemon.run("c6", command=STAYS, **always, **root)
    again_pod = daemon.get(again)["pod"]
    stopped = daemon.run("c7", command=STAYS, **always, **root)
    daemon.verb(stopped, "stop").ok()
    before = daemon.get(running)
    daemon.kill()

    daemon.start(fault="create.after-bundle:kill")
    with pytest.raises((OSError, HTTPException)):
        daemon("POST", "/v1/containers", {"name": "c3", "network": "none", "command": STAYS} | root)
    assert daemon.died() == -signal.SIGKILL
    daemon.pods.look()
    assert len(ids_on_disk(daemon)) == 7
    assert len(daemon.pods.pods()) == 7
    file = daemon.root / "containers" / corrupt / "container.state"
    file.write_bytes(file.read_bytes()[:-40])
    for uuid in (lost_pod, again_pod):
        kill_monitor(daemon, uuid)
    time.sleep(0.6)
    ended_at = time.time()
    time.sleep(0.2)

    daemon.start()
    shown = {one["name"]: one for one in daemon.list()}
    assert len(shown) == 6
    assert (shown["c1"]["status"], shown["c1"]["pid"]) == ("running", before["pid"])
    two = shown["c2"]
    assert (two["status"], two["exit_code"], two["error"]) == ("stopped", 3, "")
    from datetime import datetime

    assert datetime.fromisoformat(two["finished_at"]).timestamp() < ended_at
    assert "c3" not in shown
    assert shown[corrupt[:12]]["status"] == "corrupt"
    assert file.exists(), "its files are kept"
    assert (shown["c4"]["status"], shown["c4"]["exit_code"]) == ("stopped", None)
    assert shown["c4"]["error"].startswith("exit status unknown")
    assert (daemon.pods.path(lost_pod) / "apps" / "app" / "upper" / "kept").exists()
    assert shown["c7"]["status"] == "stopped"
    daemon.wait_for("c6", "running")
    assert daemon.get("c6")["pod"] == again_pod
    assert len(daemon.pods.pods()) == 6, "that of c3 is gone"
    numbers = [int(line) for line in log_of(daemon, "c1")]
    assert numbers == list(range(1, len(numbers) + 1)), "no line was lost"

    daemon.verb(corrupt, "start").failed(409, "corrupt")
    daemon("DELETE", f"/v1/containers/{corrupt}").failed(409, "corrupt")
    daemon("DELETE", f"/v1/containers/{corrupt}?force=1").ok()
    assert len(daemon.pods.pods()) == 5
    daemon.verb("c4", "start").ok()
    assert (daemon.pods.path(daemon.get("c4")["pod"]) / "apps" / "app" / "upper" / "kept").exists()


def test_ending_in_order_leaves_containers_running(daemon: Daemon, shell_root: str) -> None:
    daemon.run("c1", rootfs=shell_root, command=STAYS)
    before = daemon.get("c1")
    os.kill(daemon.pid, signal.SIGHUP)
    assert daemon.get("c1") == before, "a terminal that goes does not end it"
    assert daemon.stop() == 0
    assert not daemon.socket.exists()
    assert processes.alive(before["pid"])
    daemon.start()
    assert daemon.get("c1") == before


def test_a_runtime_that_is_not_there_deletes_nothing(daemon: Daemon, shell_root: str) -> None:
    daemon.run("c1", rootfs=shell_root, command=STAYS)
    daemon.create("c2", rootfs=shell_root, command=["/bin/true"])
    daemon.kill()
    daemon.start("--runtime=/nonexistent")
    assert sorted((one["name"], one["status"]) for one in daemon.list()) == [
        ("c1", "running"),
        ("c2", "created"),
    ]
    spec = {"name": "c3", "network": "none", "rootfs": shell_root, "command": ["/bin/true"]}
    answer = daemon("POST", "/v1/containers", spec)
    if answer.status < 300:
        daemon.verb("c3", "start").failed(400, "/nonexistent")
        daemon.remove("c3")
    daemon.kill()
    daemon.start()
    daemon.verb("c2", "start").ok()
    assert daemon.verb("c2", "wait").ok()["exit_code"] == 0
    assert daemon.get("c1")["status"] == "running"


@pytest.mark.parametrize("point", ["create.after-intent", "create.after-bundle"])
def test_a_creation_that_was_killed(daemon: Daemon, shell_root: str, point: str) -> None:
    daemon.kill()
    daemon.start(fault=f"{point}:kill")
    spec = {"name": "c1", "network": "none", "rootfs": shell_root, "command": STAYS}
    with pytest.raises((OSError, HTTPException)):
        daemon("POST", "/v1/containers", spec)
    assert daemon.died() == -signal.SIGKILL
    daemon.pods.look()
    assert len(ids_on_disk(daemon)) == 1
    daemon.start()
    assert (daemon.list(), ids_on_disk(daemon), daemon.pods.pods()) == ([], [], [])
    daemon("POST", "/v1/containers", spec).ok()


def test_a_creation_whose_ocipod_was_at_work(daemon: Daemon, shell_root: str) -> None:
    """Ocipod exits with the daemon, and its files are removed."""
    daemon.kill()
    daemon.start(fault="sandbox.after-manifest:stop")
    connection_lost = False
    from threading import Thread

    def ask() -> None:
        nonlocal connection_lost
        try:
            daemon.create("c1", rootfs=shell_root, command=STAYS)
        except (OSError, HTTPException):
            connection_lost = True

    asking = Thread(target=ask)
    asking.start()

    def stopped() -> list[int]:
        return [pid for pid in processes.descendants() if processes.state(pid) == "T"]

    assert processes.until(lambda: len(stopped()) == 1, 30)
    (pid,) = stopped()
    daemon.kill()
    asking.join(30)
    assert connection_lost
    assert processes.until(lambda: not processes.alive(pid))
    daemon.pods.look()
    daemon.start()
    assert (daemon.list(), ids_on_disk(daemon), daemon.pods.pods()) == ([], [], [])


def test_a_removal_that_was_killed(daemon: Daemon, shell_root: str) -> None:
    daemon.run("c1", rootfs=shell_root, command=STAYS)
    daemon.kill()
    daemon.start(fault="remove.after-pod:kill")
    with pytest.raises((OSError, HTTPException)):
        daemon.remove("c1")
    assert daemon.died() == -signal.SIGKILL
    assert len(ids_on_disk(daemon)) == 1
    daemon.start()
    assert (daemon.list(), ids_on_disk(daemon), daemon.pods.pods()) == ([], [], [])
    kinds = [event["kind"] for event in daemon.recorded_events()]
    assert (kinds[0], kinds[-1], kinds.count("destroy")) == ("create", "destroy", 1)


def test_a_pod_whose_monitor_was_killed_is_run_again(daemon: Daemon, shell_root: str) -> None:
    """It is the same pod, with the same files."""
    script = (
        "busybox wc -l < /runs; echo run >> /runs; trap 'exit 0' TERM; while :; do sleep 0.1; done"
    )
    daemon.run("c1", rootfs=shell_root, command=["/bin/sh", "-c", script])
    uuid = daemon.get("c1")["pod"]
    assert processes.until((daemon.pods.path(uuid) / "apps/app/upper/runs").exists)
    daemon.kill()
    kill_monitor(daemon, uuid)
    daemon.start()
    assert daemon.get("c1")["status"] == "stopped"
    daemon.verb("c1", "start").ok()
    assert processes.until(lambda: log_of(daemon, "c1")[-1:] == ["1"])
    assert daemon.get("c1")["pod"] == uuid
    assert daemon.pods.pods() == [uuid]


def test_a_pod_that_was_removed_by_hand(daemon: Daemon, shell_root: str) -> None:
    daemon.run("c1", rootfs=shell_root, command=STAYS)
    uuid = daemon.get("c1")["pod"]
    daemon.pods("stop", "--force", "--wait", uuid).ok()
    daemon.pods("rm", uuid).ok()
    one = daemon.wait_for("c1", "stopped")
    assert "pod was removed" in one["error"]
    daemon.verb("c1", "start").ok()
    assert daemon.get("c1")["status"] == "running"


def test_a_new_pod_that_was_not_made_to_the_end(daemon: Daemon, shell_root: str) -> None:
    """The next daemon removes it, and the next start creates another one."""
    identifier = daemon.create("c1", rootfs=shell_root, command=STAYS)
    old = daemon.get("c1")["pod"]
    daemon.kill()
    daemon.pods("rm", old).ok()
    daemon.start(fault="renew.before-save:kill")
    with pytest.raises((OSError, HTTPException)):
        daemon.verb("c1", "start")
    assert daemon.died() == -signal.SIGKILL
    daemon.pods.look()
    assert len(daemon.pods.pods()) == 1
    daemon.start()
    assert daemon.pods.pods() == []
    assert daemon.get("c1")["pod"] == old
    daemon.verb("c1", "start").ok()
    assert daemon.pods.pods() == [daemon.get("c1")["pod"]] != [old]
    notes = daemon.root / "containers" / identifier
    assert [path.name for path in notes.iterdir()] == ["container.state"]


def test_a_pod_that_a_killed_daemon_ran_for_a_client(daemon: Daemon, shell_root: str) -> None:
    """A client was attached, and waited for the container's start."""
    daemon.create("c1", rootfs=shell_root, command=STAYS)
    uuid = daemon.get("c1")["pod"]
    daemon.kill()
    daemon.pods("run-prepared", "--detach", uuid).ok()
    daemon.start()
    daemon.pods.wait_for(uuid, "exited")
    assert daemon.get("c1")["status"] == "created"


def test_gc_leaves_containers_alone(daemon: Daemon, shell_root: str) -> None:
    for name in ("c1", "c2"):
        daemon.create(name, rootfs=shell_root, command=STAYS)
    daemon.verb("c2", "start").ok()
    kill_monitor(daemon, daemon.get("c2")["pod"])
    daemon.wait_for("c2", "stopped")
    daemon.pods("gc", "--grace-period=0s", "--expire-prepared=0s").ok()
    assert daemon.get("c1")["status"] == "created"
    for name in ("c1", "c2"):
        daemon.verb(name, "start").ok()
        assert daemon.get(name)["status"] == "running"


def test_files_without_a_container(daemon: Daemon) -> None:
    """Files that are not containers stay, an empty directory is removed."""
    place = daemon.root / "containers"
    daemon.kill()
    (place / "empty").mkdir()
    (place / "odd").mkdir()
    (place / "odd" / "file").write_text("somebody's")
    daemon.start()
    assert [(one["id"], one["status"]) for one in daemon.list()] == [("odd", "corrupt")]
    assert (place / "odd" / "file").read_text() == "somebody's"
    daemon.remove("odd")
    assert ids_on_disk(daemon) == []


def test_requests_are_logged_with_who_has_asked(daemon: Daemon) -> None:
    daemon("GET", "/v1/containers/none").failed(404)
    pattern = rf"pid {os.getpid()} uid 0: GET /v1/containers/none 404"
    assert re.search(pattern, Path(daemon.log).read_text())


def test_a_removal_that_was_killed_within_the_pod(daemon: Daemon, shell_root: str) -> None:
    """Half of the pod exists: the next attempt removes it."""
    daemon.run("c1", rootfs=shell_root, command=STAYS)
    daemon.run("c2", rootfs=shell_root, command=STAYS)
    daemon.kill()
    daemon.start(fault="gc.sweep.before-manifest:kill")
    for name in ("c1", "c2"):
        daemon("DELETE", f"/v1/containers/{name}?force=1").failed(500)
        assert daemon.status(name) == "removing"
    daemon.verb("c1", "start").failed(409, "removal is incomplete")
    daemon.kill()
    daemon.start()
    assert (daemon.list(), ids_on_disk(daemon), daemon.pods.pods()) == ([], [], [])


def test_the_record_of_a_finished_replacement_keeps_the_pod(
    daemon: Daemon, shell_root: str
) -> None:
    """It names the container's current pod, which must be kept."""
    identifier = daemon.create("c1", rootfs=shell_root, command=STAYS)
    uuid = daemon.get("c1")["pod"]
    daemon.kill()
    notes = daemon.root / "containers" / identifier
    (notes / "pod").write_text(uuid)
    daemon.start()
    assert daemon.pods.pods() == [uuid]
    assert [path.name for path in notes.iterdir()] == ["container.state"]


def test_a_pod_that_only_a_note_knows_of_goes_with_it(daemon: Daemon, shell_root: str) -> None:
    identifier = daemon.create("c1", rootfs=shell_root, command=STAYS)
    made = daemon.pods("app", "sandbox", "--detach", "--keep", "--net=none").ok().out.strip()
    (daemon.root / "containers" / identifier / "pod").write_text(made)
    daemon.remove("c1")
    assert daemon.pods.pods() == []
