"""Options of ``ocictl run`` that docker's users know, as seen by the program in the container."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.daemon import Daemon


@pytest.fixture
def daemon(shared_daemon: Daemon) -> Daemon:
    return shared_daemon


def seen(daemon: Daemon, shell_root: str, *options: str, script: str) -> list[str]:
    """Return the lines that a script prints in a container with these options."""
    words = ("--rm", f"--rootfs={shell_root}", "--network=none", *options)
    return daemon.ctl("run", *words, "/bin/busybox", "sh", "-c", script).ok().out.splitlines()


def test_names_and_addresses(daemon: Daemon, shell_root: str) -> None:
    options = ("--add-host=db:10.0.0.2", "--dns=9.9.9.9", "--dns-search=a.example")
    script = "cat /etc/hosts /etc/resolv.conf"
    lines = seen(daemon, shell_root, *options, "--dns-option=ndots:2", script=script)
    assert "10.0.0.2\tdb" in lines
    assert {"nameserver 9.9.9.9", "search a.example", "options ndots:2"} <= set(lines)


def test_privileges(daemon: Daemon, shell_root: str) -> None:
    options = ("--security-opt=no-new-privileges", "--security-opt=seccomp=unconfined")
    script = "cat /proc/self/status"
    lines = seen(daemon, shell_root, *options, "--group-add=7", script=script)
    assert "NoNewPrivs:\t1" in lines
    assert "Seccomp:\t0" in lines
    (groups,) = [line.split()[1:] for line in lines if line.startswith("Groups:")]
    assert "7" in groups
    lines = seen(daemon, shell_root, script=script)
    assert "NoNewPrivs:\t0" in lines
    assert "Seccomp:\t2" in lines


def test_memory(daemon: Daemon, shell_root: str) -> None:
    script = "/bin/busybox df -k /dev/shm; cat /proc/self/oom_score_adj"
    lines = seen(daemon, shell_root, "--shm-size=1m", "--oom-score-adj=500", script=script)
    assert lines[1].split()[1] == "1024"
    assert lines[2] == "500"


def test_ipc_of_the_host(daemon: Daemon, shell_root: str) -> None:
    own = str(Path("/proc/self/ns/ipc").readlink())
    script = "/bin/busybox readlink /proc/self/ns/ipc"
    assert seen(daemon, shell_root, "--ipc=host", script=script) == [own]
    assert seen(daemon, shell_root, "--ipc=private", script=script) != [own]


def test_cidfile(daemon: Daemon, shell_root: str, work: Path) -> None:
    path = work / "id"
    words = (f"--cidfile={path}", f"--rootfs={shell_root}", "--network=none")
    made = daemon.ctl("create", "--name=c1", *words, "/bin/true").ok().out.strip()
    assert path.read_text() == made == daemon.get("c1")["id"]
    result = daemon.ctl("create", "--name=c2", *words, "/bin/true")
    assert (result.status, "file exists" in result.err) == (1, True)
    path.unlink()
    assert daemon.ctl("create", "--name=c1", *words, "/bin/true").status == 1
    assert not path.exists()
    assert [one["name"] for one in daemon.list()] == ["c1"]


def test_a_free_port_is_chosen(daemon: Daemon, shell_root: str) -> None:
    words = ("-p", "80", "-p", "127.0.0.1::90", f"--rootfs={shell_root}", "/bin/true")
    daemon.ctl("create", "--name=c1", *words).ok()
    ports = daemon.get("c1")["spec"]["ports"]
    assert [one["port"] for one in ports] == [80, 90]
    assert all(one["host_port"] > 1023 for one in ports)
