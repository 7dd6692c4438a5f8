"""A container's lifecycle: create, start, stop, restart, remove; and refused requests."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support import processes
from tests.support.daemon import STAYS, Daemon

ENDS = ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"]


@pytest.fixture
def daemon(shared_daemon: Daemon) -> Daemon:
    return shared_daemon


def log_of(daemon: Daemon, ref: str) -> list[str]:
    """Return the container's output, both streams."""
    uuid = daemon.get(ref)["pod"]
    file = daemon.pods.path(uuid) / "logs" / "app.log"
    return [line.split(" ", 3)[3] for line in file.read_text().splitlines()]


def test_from_beginning_to_end(daemon: Daemon, shell_root: str) -> None:
    made = daemon("POST", "/v1/containers", {"rootfs": shell_root, "command": ENDS, "name": "c1"})
    one = made.ok()
    assert len(one["id"]) == 64
    assert (one["status"], one["started_at"], one["exit_code"]) == ("created", None, None)
    assert one["command"] == ENDS
    assert daemon.verb("c1", "start?strict=1").ok()["changed"]
    ended = daemon.verb("c1", "wait").ok()
    assert (ended["exit_code"], ended["signal"], ended["error"]) == (3, None, "")
    one = daemon.get(one["id"][:12])
    assert one["status"] == "stopped"
    assert one["created_at"] < one["started_at"] < one["finished_at"]
    assert one["pid"] is None
    assert sorted(log_of(daemon, "c1")) == ["err", "out"]
    daemon("DELETE", "/v1/containers/c1").ok()
    daemon("GET", "/v1/containers/c1").failed(404, "c1")
    assert daemon.pods.pods() == []
    assert list((daemon.root / "containers").iterdir()) == []
    kinds = [event["kind"] for event in daemon.recorded_events()]
    assert kinds == ["create", "start", "die", "destroy"]


def test_words_reach_the_program_as_they_are(daemon: Daemon, shell_root: str) -> None:
    words = ['a/b "q" & $x', "\\ 'single'", "tab\there", "--", "ä\nline", "*", "s/sh/no/"]
    daemon.run("c1", rootfs=shell_root, command=["/bin/busybox", "printf", "<%s>\n", *words])
    daemon.verb("c1", "wait").ok()
    assert "\n".join(log_of(daemon, "c1")) == "\n".join(f"<{word}>" for word in words)


def test_a_root_file_system_is_taken_as_it_is_and_not_changed(
    daemon: Daemon, shell_root: str
) -> None:
    """Links and owners are copied; the program writes to its own copy."""
    top = Path(shell_root)
    (top / "etc" / "owned").write_text("x")
    os.chown(top / "etc" / "owned", 33, 34)
    os.link(top / "etc" / "owned", top / "etc" / "linked")
    (top / "loop").symlink_to(".")
    os.mkfifo(top / "tmp" / "pipe")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(top / "tmp" / "socket"))
    before = sorted(str(path) for path in top.rglob("*"))
    script = (
        "ls -ln /etc/owned /etc/linked | { read a b c d e; echo $b $c $d; };"
        "busybox readlink /bin/sh; busybox readlink /loop;"
        "echo more >> /etc/owned; echo new > /tmp/new"
    )
    daemon.run("c1", rootfs=shell_root, command=["/bin/sh", "-c", script])
    assert daemon.verb("c1", "wait").ok()["exit_code"] == 0
    assert log_of(daemon, "c1") == ["2 33 34", "busybox", "."]
    assert sorted(str(path) for path in top.rglob("*")) == before
    assert (top / "etc" / "owned").read_text() == "x"


def test_stopping_and_starting_again(daemon: Daemon, shell_root: str) -> None:
    script = (
        "echo run >> /runs; busybox wc -l < /runs; trap 'exit 7' TERM; while :; do sleep 0.1; done"
    )
    daemon.run("c1", rootfs=shell_root, command=["/bin/sh", "-c", script])
    assert processes.until(lambda: log_of(daemon, "c1") == ["1"])
    first = daemon.get("c1")
    assert not daemon.verb("c1", "start").ok()["changed"]
    assert daemon.verb("c1", "stop").ok()["changed"]
    assert not daemon.verb("c1", "stop").ok()["changed"]
    one = daemon.get("c1")
    assert (one["status"], one["exit_code"]) == ("stopped", 7)
    daemon.verb("c1", "start").ok()
    assert processes.until(lambda: log_of(daemon, "c1") == ["1", "2"])
    again = daemon.get("c1")
    assert (again["status"], again["finished_at"], again["exit_code"]) == ("running", None, None)
    assert (again["pod"], again["created_at"]) == (first["pod"], first["created_at"])
    assert again["started_at"] > one["finished_at"]
    daemon.verb("c1", "restart").ok()
    assert processes.until(lambda: log_of(daemon, "c1") == ["1", "2", "3"])
    kinds = [event["kind"] for event in daemon.recorded_events()]
    ways = ["start", "die", "stop"]
    assert kinds == ["create", *ways, *ways, "start", "restart"]


def test_what_does_not_end_is_killed(daemon: Daemon, shell_root: str) -> None:
    script = "trap '' TERM; echo on; while :; do sleep 0.1; done"
    daemon.run("c1", rootfs=shell_root, command=["/bin/sh", "-c", script])
    assert processes.until(lambda: log_of(daemon, "c1") == ["on"])
    daemon.verb("c1", "stop", {"timeout": 0.3}).ok()
    one = daemon.get("c1")
    assert (one["status"], one["exit_code"], one["signal"]) == ("stopped", 137, signal.SIGKILL)


def test_its_own_signal_ends_it(daemon: Daemon, shell_root: str) -> None:
    script = "trap 'exit 9' USR1; echo on; while :; do sleep 0.1; done"
    spec = {"command": ["/bin/sh", "-c", script], "stop_signal": "usr1", "stop_timeout": 30}
    daemon.run("c1", rootfs=shell_root, **spec)
    assert processes.until(lambda: log_of(daemon, "c1") == ["on"])
    daemon.verb("c1", "stop").ok()
    assert daemon.get("c1")["exit_code"] == 9


def test_signals(daemon: Daemon, shell_root: str) -> None:
    script = "trap 'echo hup' HUP; echo on; while :; do sleep 0.1; done"
    daemon.run("c1", rootfs=shell_root, command=["/bin/sh", "-c", script])
    assert processes.until(lambda: log_of(daemon, "c1") == ["on"])
    daemon.verb("c1", "kill", {"signal": "HUP"}).ok()
    assert processes.until(lambda: log_of(daemon, "c1") == ["on", "hup"])
    daemon.verb("c1", "kill", {"signal": "SIGNONE"}).failed(400, "SIGNONE")
    daemon.verb("c1", "kill").ok()
    assert daemon.wait_for("c1", "stopped")["signal"] == signal.SIGKILL
    daemon.verb("c1", "kill").failed(409, "not running")


def test_pausing(daemon: Daemon, shell_root: str) -> None:
    daemon.run("c1", rootfs=shell_root, command=STAYS)
    daemon.verb("c1", "unpause").failed(409, "not paused")
    daemon.verb("c1", "pause").ok()
    assert daemon.get("c1")["status"] == "paused"
    daemon.verb("c1", "pause").failed(409, "already paused")
    daemon.verb("c1", "start").failed(409, "paused")
    daemon("DELETE", "/v1/containers/c1").failed(409, "paused")
    daemon.verb("c1", "unpause").ok()
    assert daemon.get("c1")["status"] == "running"
    daemon.verb("c1", "pause").ok()
    assert daemon.verb("c1", "stop").ok()["changed"], "it was woken up first"
    assert daemon.get("c1")["exit_code"] == 0


@pytest.mark.parametrize("how", ["kill", "remove"])
def test_the_end_of_what_is_paused(daemon: Daemon, shell_root: str, how: str) -> None:
    daemon.run("c1", rootfs=shell_root, command=STAYS)
    daemon.verb("c1", "pause").ok()
    if how == "kill":
        daemon.verb("c1", "kill").ok()
        assert daemon.wait_for("c1", "stopped")["exit_code"] == 137
    daemon.remove("c1")
    assert daemon.pods.pods() == []


def test_names(daemon: Daemon, shell_root: str) -> None:
    spec = {"rootfs": shell_root, "command": ["/bin/true"]}
    daemon.create("c1", **spec)
    daemon("POST", "/v1/containers", spec | {"name": "c1"}).failed(409, '"c1"')
    other = daemon.create("", **spec)
    assert daemon.get(other)["name"]
    daemon.verb(other, "rename", {"name": "c1"}).failed(409, '"c1"')
    daemon.verb("c1", "rename", {"name": "c2"}).ok()
    daemon.verb(other, "rename", {"name": "c1"}).ok()
    assert daemon.get("c1")["id"] == other
    daemon("GET", "/v1/containers/nobody").failed(404, "nobody")


def test_conditions_of_the_strict_verbs(daemon: Daemon, shell_root: str) -> None:
    daemon.create("c1", rootfs=shell_root, command=STAYS)
    daemon.verb("c1", "stop?strict=1").failed(409, '"created"')
    daemon.verb("c1", "start?strict=1").ok()
    daemon.verb("c1", "start?strict=1").failed(409, "running")
    daemon("DELETE", "/v1/containers/c1").failed(409, "running")
    daemon.verb("c1", "stop?strict=1").ok()
    daemon.verb("c1", "stop?strict=1").failed(409, "stopped")


@pytest.mark.parametrize(
    ("program", "code"), [("/bin/none", 127), ("/etc/passwd", 126)], ids=["missing", "no program"]
)
def test_a_program_that_cannot_be_executed(
    daemon: Daemon, shell_root: str, program: str, code: int
) -> None:
    daemon.create("c1", rootfs=shell_root, command=[program])
    error = daemon.verb("c1", "start").failed(400, program)
    assert (error["code"], error["exit_code"]) == ("start_failed", code)
    one = daemon.get("c1")
    assert (one["status"], one["exit_code"], one["started_at"]) == ("stopped", code, None)
    assert program in one["error"]
    assert [event["kind"] for event in daemon.recorded_events()] == ["create"]
    daemon("DELETE", "/v1/containers/c1").ok()
    assert daemon.pods.pods() == []


def test_what_cannot_be_made_leaves_nothing(daemon: Daemon, shell_root: str, work: Path) -> None:
    spec: dict[str, Any] = {"rootfs": shell_root, "command": ["/bin/true"], "name": "c1"}
    daemon("POST", "/v1/containers", spec | {"rootfs": str(work / "no")}).failed(
        400, str(work / "no")
    )
    daemon("POST", "/v1/containers", spec | {"network": "nowhere"}).failed(404, "nowhere")
    volume = {"source": str(work / "no"), "target": "/x"}
    daemon("POST", "/v1/containers", spec | {"volumes": [volume]}).failed(
        400, f'volumes[0].source: "{work / "no"}"'
    )
    daemon("POST", "/v1/containers", spec | {"user": "nobody-here"})
    daemon("POST", "/v1/containers", spec | {"memory": "many"}).failed(400, "memory")
    for one in daemon.list():
        daemon.remove(one["id"])
    assert daemon.pods.pods() == []
    assert list((daemon.root / "containers").iterdir()) == []
    daemon.create(**spec)


def test_one_that_goes_with_its_end(daemon: Daemon, shell_root: str) -> None:
    daemon.run("c1", rootfs=shell_root, command=["/bin/true"], auto_remove=True)
    daemon.wait_for("c1", "gone")
    assert processes.until(lambda: daemon.pods.pods() == [])


def test_a_paused_one_whose_monitor_is_killed(daemon: Daemon, shell_root: str) -> None:
    """On cgroup v1, frozen processes exit only once they are thawed."""
    daemon.run("c1", rootfs=shell_root, command=STAYS)
    one = daemon.get("c1")
    daemon.verb("c1", "pause").ok()
    os.kill(daemon.pods.monitor(one["pod"])["pid"], signal.SIGKILL)
    daemon.wait_for("c1", "stopped")
    assert not processes.alive(one["pid"])
    daemon.verb("c1", "start").ok()
    assert daemon.status("c1") == "running"


def test_removing_a_running_one(daemon: Daemon, shell_root: str) -> None:
    daemon.run("c1", rootfs=shell_root, command=["/bin/sh", "-c", "trap '' TERM; sleep 60"])
    daemon("DELETE", "/v1/containers/c1").failed(409, "running")
    daemon("DELETE", "/v1/containers/c1?force=1").ok()
    assert daemon.pods.pods() == []
    assert daemon.recorded_events()[-1]["kind"] == "destroy"


def test_settings_reach_the_program(daemon: Daemon, shell_root: str, work: Path) -> None:
    (work / "a, shared").mkdir()
    script = (
        "echo $A; pwd; busybox hostname; echo $HOSTNAME; busybox id -u; echo here > /shared/file;"
        "echo kept > /named/file; (echo x > /etc/x) 2>&- || echo read-only;"
        "busybox tail -1 /etc/resolv.conf; busybox grep CapBnd /proc/self/status"
    )
    spec = {
        "command": ["/bin/sh", "-c", script],
        "env": {"A": "1 2"},
        "working_dir": "/tmp",
        "hostname": "web",
        "volumes": [
            {"source": str(work / "a, shared"), "target": "/shared"},
            {"name": "box", "target": "/named"},
        ],
        "dns": ["9.9.9.9"],
        "read_only": True,
        "cap_drop": ["ALL"],
        "cap_add": ["CHOWN"],
        "labels": {"role": "test"},
    }
    daemon.run("c1", rootfs=shell_root, **spec)
    daemon.verb("c1", "wait").ok()
    assert log_of(daemon, "c1") == [
        *("1 2", "/tmp", "web", "web", "0", "read-only", "nameserver 9.9.9.9"),
        "CapBnd:\t0000000000000001",
    ]
    assert (work / "a, shared" / "file").read_text() == "here\n"
    assert (daemon.root / "volumes" / "box" / "file").read_text() == "kept\n"
    filters = json.dumps({"label": ["role=test"], "status": ["stopped"]})
    shown = daemon("GET", f"/v1/containers?all=1&filters={filters.replace(' ', '')}").ok()
    assert [one["name"] for one in shown] == ["c1"]
    daemon.remove("c1")
    daemon.run(
        "c2",
        rootfs=shell_root,
        command=["/bin/cat", "/v/file"],
        volumes=[{"name": "box", "target": "/v", "read_only": True}],
    )
    daemon.verb("c2", "wait").ok()
    assert log_of(daemon, "c2") == ["kept"]


def test_images_and_addresses(daemon: Daemon, work: Path) -> None:
    from tests.support.pod_images import busybox

    image = busybox(work, Cmd=["/bin/sh", "-c", "echo from the image"])
    one = daemon("POST", "/v1/containers", {"image": image, "name": "c1", "network": "none"}).ok()
    assert one["command"][-1] == "echo from the image"
    daemon.verb("c1", "start").ok()
    daemon.verb("c1", "wait").ok()
    assert log_of(daemon, "c1") == ["from the image"]
    daemon("POST", "/v1/containers", {"image": f"oci:{work}/none", "name": "c2"}).failed(
        500, "none"
    )


def test_waiting(daemon: Daemon, shell_root: str) -> None:
    daemon.run("c1", rootfs=shell_root, command=["/bin/sh", "-c", "sleep 0.5; exit 4"])
    with ThreadPoolExecutor(3) as pool:
        waits = [
            pool.submit(daemon.verb, "c1", "wait", {"condition": condition})
            for condition in ("not-running", "next-exit", "removed")
        ]
        assert [wait.result(30).ok()["exit_code"] for wait in waits[:2]] == [4, 4]
        assert not waits[2].done()
        daemon("DELETE", "/v1/containers/c1").ok()
        assert waits[2].result(30).ok()["exit_code"] == 4


CONNECT = """
import socket, sys
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except OSError as error:
    print(error.errno)
"""


def test_only_root_and_the_group_may_ask(daemon: Daemon) -> None:
    """The group is that of --group; the kernel refuses other users."""
    status = daemon.socket.stat()
    assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o660, 0, 0)
    assert daemon.stop() == 0
    daemon.start("--group=7")
    assert daemon.socket.stat().st_gid == 7
    for group, errno_said in ((7, ""), (8, f"{errno.EACCES}\n")):
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", CONNECT, str(daemon.socket)],
            user=65534,
            group=group,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
        )
        assert (done.stdout, done.stderr) == (errno_said, "")


def test_a_second_daemon(daemon: Daemon, work: Path) -> None:
    second = Daemon(daemon.root.parent)
    second.socket = work / "other"
    second.log = work / "other.log"
    second.start(wait=False)
    assert second.died() == 1
    assert "another ocid" in second.log.read_text()
    third = Daemon(work)
    third.socket = daemon.socket
    third.start(wait=False)
    assert third.died() == 1
    assert "address already in use" in third.log.read_text()
    assert daemon.list() == []


@pytest.mark.parametrize("how", ["kill", "stop", "remove"])
def test_a_slow_stop_blocks_no_other_request(daemon: Daemon, shell_root: str, how: str) -> None:
    """The client with the shorter timeout ends the container."""
    script = "trap '' TERM; echo on; while :; do sleep 0.1; done"
    daemon.run("c1", rootfs=shell_root, command=["/bin/sh", "-c", script])
    assert processes.until(lambda: log_of(daemon, "c1") == ["on"])
    state = daemon.pods.path(daemon.get("c1")["pod"]) / "apps" / "app" / "state.json"
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(daemon.verb, "c1", "stop", {"timeout": 600})
        assert processes.until(lambda: '"stopping"' in state.read_text())
        if how == "remove":
            daemon.remove("c1")
        else:
            daemon.verb("c1", how, {"timeout": 0.1} if how == "stop" else None).ok()
        slow.result(30)


def test_two_at_once(daemon: Daemon, shell_root: str) -> None:
    """Many clients send the same request, and each gets a correct answer."""
    spec = {"rootfs": shell_root, "command": STAYS, "network": "none", "name": "c1"}
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: daemon("POST", "/v1/containers", spec).status, range(4)))
        assert sorted(made) == [201, 409, 409, 409]
        for verb in ("start", "stop"):
            done = list(pool.map(daemon.verb, ["c1"] * 4, [verb] * 4))
            assert sorted(one.ok()["changed"] for one in done) == [False, False, False, True]
        gone = list(pool.map(lambda _: daemon("DELETE", "/v1/containers/c1").status, range(4)))
        assert set(gone) <= {204, 404}
        assert 204 in gone
    kinds = [event["kind"] for event in daemon.recorded_events()]
    assert kinds == ["create", "start", "die", "stop", "destroy"]
