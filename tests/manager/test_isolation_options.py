"""Options of ``ocictl run`` for limits, kernel settings and devices, as the program sees them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support import cgroupfs
from tests.support.daemon import Daemon


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
        (("--network=host", "--sysctl=net.core.somaxconn=77"), "would change the host, because"),
        (("--ipc=host", "--sysctl=kernel.shmmax=65536"), "would change the host, because"),
        (("--sysctl=vm.swappiness=1",), "belongs to no namespace of a container"),
        (("--sysctl=net/../vm/swappiness=1",), "belongs to no namespace of a container"),
        (("--sysctl=net.core.no_such=1",), "no_such"),
        (("--ulimit=files=1",), 'unknown value "files"'),
        (("--tmpfs=/run:bind",), 'unknown option of a tmpfs "bind"'),
        (("--tmpfs=/run", "-v=/srv:/run"), "/run is a tmpfs, too"),
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
