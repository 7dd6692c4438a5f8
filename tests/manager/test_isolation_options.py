"""Options of ``ocictl run`` for limits, kernel settings and devices, as seen by the program."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.support import cgroupfs, processes
from tests.support.daemon import Daemon
from tests.support.images import MACHINE
from tests.support.pod_images import busybox
from tests.support.terminal import PtyCommand


@pytest.fixture
def daemon(shared_daemon: Daemon) -> Daemon:
    return shared_daemon


def seen(daemon: Daemon, shell_root: str, *options: str, script: str) -> list[str]:
    """Return the lines that a script prints in a container with these options."""
    network = () if any(word.startswith("--network") for word in options) else ("--network=none",)
    words = ("--rm", f"--rootfs={shell_root}", *network, *options)
    result = daemon.ctl("run", *words, "/bin/busybox", "sh", "-c", script)
    return result.ok().out.splitlines()


def test_ulimits(daemon: Daemon, shell_root: str) -> None:
    options = ("--ulimit=nofile=64:128", "--ulimit=core=-1", "--ulimit=nproc=1000")
    lines = seen(daemon, shell_root, *options, script="cat /proc/self/limits")
    found = {line[:26].rstrip(): line[26:].split()[:2] for line in lines}
    assert found["Max open files"] == ["64", "128"]
    assert found["Max core file size"] == ["unlimited", "unlimited"]
    assert found["Max processes"] == ["1000", "1000"]


def test_kernel_parameters(daemon: Daemon, shell_root: str) -> None:
    somaxconn = Path("/proc/sys/net/core/somaxconn").read_text()
    shmmax = Path("/proc/sys/kernel/shmmax").read_text()
    options = ("--sysctl=net.core.somaxconn=77", "--sysctl", "kernel.shmmax=65536")
    script = "cd /proc/sys; cat net/core/somaxconn kernel/shmmax; echo 1 >kernel/shmmax"
    assert seen(daemon, shell_root, *options, script=f"{script} || true") == ["77", "65536"]
    assert Path("/proc/sys/net/core/somaxconn").read_text() == somaxconn
    assert Path("/proc/sys/kernel/shmmax").read_text() == shmmax


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--network=host", "--sysctl=net.core.somaxconn=77"), "with the host"),
        (("--ipc=host", "--sysctl=kernel.shmmax=65536"), "with the host"),
        (("--sysctl=vm.swappiness=1",), '"vm.swappiness"'),
        (("--sysctl=net/../vm/swappiness=1",), "would change"),
        (("--sysctl=net.core.no_such=1",), "no_such"),
        (("--ulimit=files=1",), 'unknown value "files"'),
        (("--tmpfs=/run:bind",), 'unknown tmpfs option "bind"'),
        (("--tmpfs=/run", "-v=/srv:/run"), 'mounted at "/run"'),
    ],
)
def test_settings_that_are_refused(
    daemon: Daemon, shell_root: str, options: tuple[str, ...], told: str
) -> None:
    network = () if options[0].startswith("--network") else ("--network=none",)
    words = ("run", f"--rootfs={shell_root}", *network, *options, "/bin/true")
    result = daemon.ctl(*words)
    assert (result.status, told in result.err) == (125, True), result


def test_tmpfs(daemon: Daemon, shell_root: str) -> None:
    (Path(shell_root) / "data").mkdir(mode=0o750)
    (Path(shell_root) / "data" / "file").write_text("hidden")
    options = (
        *("--tmpfs=/data", "--tmpfs", "/own:exec,size=64k,mode=0701"),
        *("--mount", "type=tmpfs,target=/sub/dir,tmpfs-size=128k,tmpfs-mode=700,readonly"),
    )
    script = "ls -A /data; grep tmpfs /proc/self/mounts; ls -ld /data /own /sub/dir"
    lines = seen(daemon, shell_root, *options, script=script)
    mounts = {line.split()[1]: line.split()[3] for line in lines if line.startswith("tmpfs ")}
    assert {"rw", "nosuid", "nodev", "noexec"} <= set(mounts["/data"].split(","))
    assert {"rw", "nosuid", "nodev", "size=64k", "mode=701"} <= set(mounts["/own"].split(","))
    assert "noexec" not in mounts["/own"]
    assert {"ro", "size=128k", "mode=700"} <= set(mounts["/sub/dir"].split(","))
    modes = {words[-1]: words[0] for words in map(str.split, lines) if len(words) == 9}
    assert modes == {"/data": "drwxr-x---", "/own": "drwx-----x", "/sub/dir": "drwx------"}
    assert not any(re.match("hidden|file$", line) for line in lines)


def control_files(container_id: str, pod: str) -> dict[str, str]:
    """Return the control files of a container's cgroups, in all hierarchies."""
    found = {}
    for top in set(cgroupfs.hierarchies().values()):
        directory = top / f"ocipod-{pod}" / "app"
        for file in directory.iterdir() if directory.is_dir() else ():
            if file.is_file() and os.access(file, os.R_OK) and file.name in FILES:
                found[FILES[file.name]] = file.read_text().strip()
    assert found, container_id
    return found


# File of cgroup v1 or v2 -> the option.
FILES = {
    "memory.soft_limit_in_bytes": "reservation",
    "memory.low": "reservation",
    "memory.memsw.limit_in_bytes": "swap",
    "memory.swap.max": "swap",
    "cpuset.cpus": "cpus",
    "cpuset.mems": "mems",
    "cpu.cfs_quota_us": "quota",
    "cpu.cfs_period_us": "period",
    "cpu.max": "max",
}


def test_further_limits(daemon: Daemon, shell_root: str) -> None:
    options = (
        *("--memory=64m", "--memory-swap=96m", "--memory-reservation=32m", "--cpu-quota=20000"),
        *("--cpu-period=50000", "--cpuset-cpus=0", "--cpuset-mems=0", "--network=none"),
    )
    words = ("run", "-d", "--name=c1", f"--rootfs={shell_root}", *options, "/bin/sleep", "1000")
    made = daemon.ctl(*words).ok().out.strip()
    found = control_files(made, daemon.get(made)["pod"])
    assert found["reservation"] == str(32 << 20)
    assert found.get("swap") in (None, str(96 << 20), str(32 << 20))
    assert (found["cpus"], found["mems"]) == ("0", "0")
    assert found.get("max") or f"{found['quota']} {found['period']}" == "20000 50000"
    daemon.remove("c1")


def test_cpus_that_the_host_lacks(daemon: Daemon, shell_root: str) -> None:
    words = ("run", f"--rootfs={shell_root}", "--network=none", "--cpuset-cpus=9999", "/bin/true")
    result = daemon.ctl(*words)
    assert (result.status, "cpuset" in result.err) == (125, True), result


def test_a_device(daemon: Daemon, shell_root: str) -> None:
    """It can be used with the given access; another one can be created, but not opened."""
    options = ("--device=/dev/full:/dev/mine/full:r", "--device=/dev/zero:/srv/zero:w")
    script = (
        "cd /bin; for one in '/dev/mine/full r' '/dev/mine/full w' '/srv/zero r' '/srv/zero w'; do"
        "  set -- $one; if [ $2 = r ]; then busybox head -c1 $1 >/dev/null; else : >$1; fi"
        '  2>/dev/null && echo "$1 $2"; done; '
        "busybox mknod /dev/kernel c 1 11; cat /dev/kernel 2>&1"
    )
    lines = seen(daemon, shell_root, *options, script=f"{script}; true")
    # Kernels permit the devices that every container has, whatever the rule says.
    assert {"/dev/mine/full r", "/srv/zero w"} <= set(lines)
    assert lines[-1].endswith("Operation not permitted")


def test_only_the_device_that_was_asked_for(daemon: Daemon, shell_root: str) -> None:
    if not Path("/dev/fuse").is_char_device():
        pytest.skip("needs /dev/fuse")
    script = "exec 2>&1; : </dev/fuse && echo read; : >>/dev/fuse && echo write"
    read = seen(daemon, shell_root, "--device=/dev/fuse:r", script=f"({script}); true")
    assert read[0] == "read"
    assert "write" not in read
    assert "Operation not permitted" in read[1]
    (line,) = seen(daemon, shell_root, "--device=/dev/fuse", script="ls -l /dev/fuse")
    assert line.startswith("crw")


def test_what_is_no_device(daemon: Daemon, shell_root: str, work: Path) -> None:
    (work / "link").symlink_to("/etc/passwd")
    for source, told in (
        ("/dev/no-such", "no such file or directory"),
        (str(work / "link"), "neither a device"),
        ("/etc", "no device"),
    ):
        words = ("run", f"--rootfs={shell_root}", "--network=none", f"--device={source}:/dev/x")
        result = daemon.ctl(*words, "/bin/true")
        assert (result.status, told in result.err) == (125, True), result
    assert daemon.list() == []


def test_links_in_the_image_lead_nothing_out(daemon: Daemon, shell_root: str) -> None:
    """The path in the container is resolved in its root, including links."""
    before = sorted(Path("/dev").iterdir())
    (Path(shell_root) / "out").symlink_to("/../../../../dev")
    (Path(shell_root) / "up").symlink_to("../../../../../../tmp")
    devices = ("--device=/dev/full:/out/escaped", "--device=/dev/full:/up/escaped")
    options = (*devices, "--tmpfs=/up/mounted:size=64k")
    script = "ls /dev/escaped /tmp/escaped; grep -c '^tmpfs /tmp/mounted' /proc/self/mounts"
    lines = seen(daemon, shell_root, *options, script=script.replace("grep", "/bin/busybox grep"))
    assert lines == ["/dev/escaped", "/tmp/escaped", "1"]
    assert sorted(Path("/dev").iterdir()) == before
    assert not Path("/tmp/escaped").exists()
    assert not Path("/tmp/mounted").exists()


def test_privileged(daemon: Daemon, shell_root: str) -> None:
    script = (
        "grep -E 'CapEff|Seccomp:' /proc/self/status; cut -d' ' -f2,4 /proc/self/mounts; "
        "ls /dev; cat /proc/sysrq-trigger 2>&1; head -c0 /dev/kmsg && echo opened"
    )
    script = script.replace("grep", "busybox grep").replace("cut", "busybox cut")
    script = script.replace("head", "busybox head")
    lines = seen(daemon, shell_root, "--privileged", script=f"cd /bin; {script}; true")
    effective, seccomp = lines[:2]
    own = Path("/proc/self/status").read_text()
    assert effective in own
    assert seccomp == "Seccomp:\t0"
    mounts = {words[0]: words[1].split(",") for line in lines if len(words := line.split()) == 2}
    assert "rw" in mounts["/sys"]
    assert not {path for path in mounts if path.startswith(("/proc/", "/sys/kernel"))}
    assert all("rw" in options for path, options in mounts.items() if "cgroup" in path)
    devices = {path.name for path in Path("/dev").iterdir() if path.is_char_device()}
    assert devices - {"console"} <= set(lines)
    assert lines[-1] == "opened"
    usual = seen(daemon, shell_root, script=f"cd /bin; {script}; true")
    assert usual[0] != effective
    assert "opened" not in usual


def test_orphans_are_reaped(daemon: Daemon, shell_root: str) -> None:
    """Orphans are reaped with ``--init`` and without it; the program is not process 1."""
    script = (
        "cd /bin; (sh -c 'sleep 0.01 &') ; sh -c 'sleep 0.01 & sleep 0.01 &'; "
        "for n in 1 2 3 4 5 6 7 8 9 10; do usleep 50000; "
        "busybox grep -l '^State:.Z' /proc/[0-9]*/status || break; done; "
        "echo $n; [ $$ != 1 ] && echo other"
    )
    for options in (("--init",), ()):
        lines = seen(daemon, shell_root, *options, script=script)
        assert lines[-1] == "other"
        assert int(lines[-2]) < 10


def test_the_environment_is_that_of_docker(daemon: Daemon, shell_root: str) -> None:
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    words = ("run", "--rm", f"--rootfs={shell_root}", "--network=none")
    env = ("/bin/busybox", "env")
    lines = daemon.ctl(*words, "--hostname=box", "-e", "A=1", *env).ok().out.splitlines()
    assert sorted(lines) == ["A=1", "HOME=/root", "HOSTNAME=box", f"PATH={path}"]
    lines = daemon.ctl(*words, "-t", "-e", "HOME=/own", *env).ok().out.splitlines()
    found = dict(line.split("=", 1) for line in lines)
    assert set(found) == {"HOME", "HOSTNAME", "PATH", "TERM"}
    assert (found["HOME"], found["TERM"]) == ("/own", "xterm")


def test_a_terminal_without_input(daemon: Daemon, shell_root: str) -> None:
    """It does not need a terminal of the client; if there is one, its size follows."""
    script = "[ -t 0 ] && [ -t 1 ] && echo terminal"
    assert seen(daemon, shell_root, "-t", script=script) == ["terminal"]
    words = ("run", "-t", "--rm", f"--rootfs={shell_root}", "--network=none", "/bin/busybox", "sh")
    script = (
        "cd /bin; trap 'busybox stty size; exit' WINCH; busybox stty size; "
        "while :; do sleep 0.1; echo tick; done"
    )
    command = PtyCommand([*daemon.client, *words, "-c", script], rows=31, columns=71)
    try:
        command.terminal.read_until("31 71")
        command.terminal.write("nobody reads this\n")
        (made,) = daemon.list()
        viewer = PtyCommand([*daemon.client, "attach", "--no-stdin", made["id"]], rows=5, columns=9)
        try:
            viewer.terminal.read_until("tick")
            viewer.terminal.resize(6, 9)
            viewer.terminal.seen = b""
            viewer.terminal.read_until("tick")
        finally:
            os.kill(viewer.pid, signal.SIGKILL)
            os.waitpid(viewer.pid, 0)
            viewer.close()
        command.terminal.resize(32, 72)
        assert " 9\r" not in command.terminal.read_until("32 72")
        assert command.wait() == 0
    finally:
        command.close()


def namespace(kind: str) -> str:
    return str(Path(f"/proc/self/ns/{kind}").readlink())


def test_names(daemon: Daemon, shell_root: str) -> None:
    script = "cd /bin; busybox readlink /proc/self/ns/uts; busybox hostname; cat /etc/hosts; "
    script += "cat /proc/sys/kernel/domainname; echo $HOSTNAME"
    lines = seen(daemon, shell_root, "--uts=host", script=script)
    assert lines[:2] == [namespace("uts"), os.uname().nodename]
    assert lines[-1] == os.uname().nodename
    options = ("--hostname=web", "--domainname=example.org")
    lines = seen(daemon, shell_root, *options, script=script)
    assert lines[0] != namespace("uts")
    assert (lines[1], *lines[-2:]) == ("web", "example.org", "web")
    assert "127.0.0.1\tweb.example.org web" in lines
    assert Path("/proc/sys/kernel/domainname").read_text() != "example.org\n"


def test_processes_of_the_host(daemon: Daemon, shell_root: str) -> None:
    """They are visible; remaining processes exit with the container and its monitor."""
    script = f"cd /bin; busybox readlink /proc/self/ns/pid; ls -d /proc/{os.getpid()}"
    left = "(busybox setsid sleep 1000 >/dev/null 2>&1 & echo $!)"
    *lines, pid = seen(daemon, shell_root, "--pid=host", script=f"{script}; {left}")
    assert lines == [namespace("pid"), f"/proc/{os.getpid()}"]
    assert processes.until(lambda: not processes.alive(int(pid)))
    script = "trap '' TERM; busybox setsid sleep 1000 & echo $!; while :; do sleep 0.1; done"
    words = ("run", "-d", "--pid=host", f"--rootfs={shell_root}", "--network=none")
    made = daemon.ctl(*words, "/bin/sh", "-c", script).ok().out.strip()
    assert processes.until(lambda: daemon.ctl("logs", made).ok().out != "")
    pids = [int(daemon.ctl("logs", made).ok().out), daemon.get(made)["pid"]]
    assert all(processes.alive(one) for one in pids)
    assert daemon.ctl("exec", made, "/bin/sh", "-c", "echo $$").ok().out.strip() != ""
    pod = daemon.pods.path(daemon.get(made)["pod"])
    os.kill(json.loads((pod / "monitor.json").read_text())["pid"], signal.SIGKILL)
    assert processes.until(lambda: not any(processes.alive(one) for one in pids))
    daemon.wait_for(made, "stopped")


def test_a_platform(daemon: Daemon, work: Path) -> None:
    image = busybox(work)
    words = ("run", "--rm", "--network=none")
    echo = ("/bin/sh", "-c", "echo here")
    own = f"--platform=linux/{MACHINE}"
    assert daemon.ctl(*words, own, image, *echo).ok().out == "here\n"
    other = daemon.ctl(*words, "--platform=linux/s390x", image, *echo)
    assert (other.status, "not for linux/s390x" in other.err) == (125, True), other
    daemon.ctl("pull", own, image).ok()
    daemon.ctl("pull", "--platform=linux/s390x", image).failed("not for linux/s390x")
    daemon.ctl("pull", "--platform=--help", image).failed("invalid platform")
