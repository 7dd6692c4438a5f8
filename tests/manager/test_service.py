"""``ocid`` as a service: command line, socket activation, notifications."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.daemon import OCID, Daemon
from tests.support.ocipod import Ocipod


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--rot=x"], "--root"),
        (["now"], "takes no arguments"),
        (["--group=nobody-here"], "nobody-here"),
        (["--insecure-options=evil"], "evil"),
        ([f"--socket=/{'x' * 200}"], "too long"),
    ],
)
def test_a_command_line_that_is_wrong(work: Path, words: list[str], why: str) -> None:
    places = [f"--root={work}/m", f"--dir={work}/data", f"--socket={work}/s"]
    done = subprocess.run([OCID, *places, *words], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("ocid: ")
    assert done.stderr.count("\n") == 1
    assert why in done.stderr


def test_help_and_version() -> None:
    shown = subprocess.run([OCID, "--help"], capture_output=True, text=True)
    assert shown.returncode == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80
    version = subprocess.run([OCID, "--version"], capture_output=True, text=True)
    assert (version.returncode, version.stdout.startswith("ocid: ")) == (0, True)


def test_a_socket_that_is_handed_over(work: Path, daemon: Daemon) -> None:
    """It listens before the daemon has started, and after it has exited."""
    daemon.stop()
    given = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.settimeout(30)
    with given, told:
        given.bind(str(daemon.socket))
        given.listen(5)
        told.bind(str(work / "notify"))
        script = 'LISTEN_PID=$$ exec "$@" 3<&"$FD"'
        environment = Ocipod.environment(
            "",
            {
                "FD": str(given.fileno()),
                "LISTEN_FDS": "1",
                "NOTIFY_SOCKET": str(work / "notify"),
            },
        )
        with open(daemon.log, "ab") as log:
            daemon.process = subprocess.Popen(
                ["/bin/bash", "-c", script, "sh", *daemon.command()],
                env=environment,
                pass_fds=[given.fileno()],
                stderr=log,
            )
        assert daemon("GET", "/v1/ping").status == 200, "it waits until a client connects"
        assert told.recv(100) == b"READY=1"
        assert daemon.stop() == 0
        assert told.recv(100) == b"STOPPING=1"
        assert daemon.socket.exists(), "it is the service manager's"


def test_what_is_told_to_systemd_stays_with_the_daemon(
    work: Path, daemon: Daemon, shell_root: str
) -> None:
    daemon.stop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(work / "notify"))
        daemon.environment = {"NOTIFY_SOCKET": str(work / "notify")}
        daemon.start()
        told.settimeout(30)
        assert told.recv(100) == b"READY=1"
        pid = daemon.get(daemon.run(rootfs=shell_root, command=["/bin/sleep", "60"]))["pid"]
        for name in (pid, processes.parent(pid)):
            assert b"NOTIFY_SOCKET" not in Path(f"/proc/{name}/environ").read_bytes()


def test_ending_while_a_container_is_made(daemon: Daemon, shell_root: str) -> None:
    """The container is created completely, or nothing of it is left."""
    from http.client import HTTPException
    from threading import Thread

    made: list[str] = []

    def ask() -> None:
        try:
            made.append(daemon.create("c1", rootfs=shell_root, command=["/bin/true"]))
        except (OSError, HTTPException, AssertionError):
            pass

    asking = Thread(target=ask)
    asking.start()
    place = daemon.root / "containers"
    assert processes.until(lambda: any(place.iterdir()))
    assert daemon.stop() == 0
    asking.join(60)
    daemon.pods.look()
    daemon.start()
    assert [one["id"] for one in daemon.list()] == made
    assert len(daemon.pods.pods()) == len(made)


def test_descriptors_of_containers_are_not_the_daemons(daemon: Daemon, shell_root: str) -> None:
    import resource

    command = ["/bin/sh", "-c", "ulimit -n; busybox ls /proc/self/fd | busybox wc -l"]
    one = daemon.run(rootfs=shell_root, command=command)
    daemon.verb(one, "wait").ok()
    log = daemon.pods.path(daemon.get(one)["pod"]) / "logs" / "app.log"
    limit, count = [line.split(" ", 3)[3] for line in log.read_text().splitlines()]
    assert limit == str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    assert int(count) == 4
    assert os.path.exists(f"/proc/{daemon.pid}")
