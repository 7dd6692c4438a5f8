"""Options of ``docker run`` and ``ocictl run``: the program sees the same settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.docker import PEER, Docker
from tests.engines.image import NAME
from tests.support.daemon import Daemon, life

STATUS = "grep -E '^(Cap...|NoNewPrivs|Seccomp):' /proc/self/status"
ENVIRONMENT = "env | sort"
DEVICES = (
    "for one in $(find /dev -type c -o -type b | sort); do "
    "ls -ln $one | cut -c1-10; echo $one; done"
)
LIMITS = (
    "cd /sys/fs/cgroup; if [ -e cpu.max ]; then cat memory.max memory.swap.max memory.low cpu.max "
    "cpuset.cpus cpuset.mems; else cat memory/memory.limit_in_bytes memory/memory.memsw.limit* "
    "memory/memory.soft_limit* cpu/cpu.cfs_* cpuset/cpuset.cpus cpuset/cpuset.mems; fi"
)
MASKS = "cut -d' ' -f2,4 /proc/self/mounts | grep ^/proc/ | sort"
OWN_MOUNTS = "grep -E ' /(run|own|sub)[ /]' /proc/self/mounts | sort; ls -ld /run /own /sub"
# What is done -> options, and a script whose output is compared.
CASES = {
    "nothing": ((), f"{STATUS}; {ENVIRONMENT}; id -u; id -g"),
    "devices of all": ((), DEVICES),
    "ulimits": (
        ("--ulimit=nofile=64:128", "--ulimit", "core=-1", "--ulimit=memlock=4096"),
        "grep -E 'open files|core file|locked' /proc/self/limits",
    ),
    "limits": (
        (
            *("--memory=64m", "--memory-swap=96m", "--memory-reservation=32m", "--cpu-quota=20000"),
            *("--cpu-period=50000", "--cpuset-cpus=0", "--cpuset-mems=0"),
        ),
        LIMITS,
    ),
    "tmpfs": (
        (
            *("--tmpfs=/run", "--tmpfs", "/own:size=64k,mode=0700,exec"),
            "--mount=type=tmpfs,dst=/sub/tmpfs,tmpfs-size=128k,tmpfs-mode=701",
        ),
        f"{OWN_MOUNTS} | cut -d' ' -f1-4",
    ),
    "sysctls": (
        ("--sysctl=net.core.somaxconn=77", "--sysctl", "kernel.shmmax=65536"),
        "cat /proc/sys/net/core/somaxconn /proc/sys/kernel/shmmax",
    ),
    "a device": (
        ("--device=/dev/fuse:/dev/mine:r",),
        f"{DEVICES}; : </dev/mine && echo read; (: >>/dev/mine) 2>/dev/null || echo refused",
    ),
    "privileged": (
        ("--privileged",),
        f"{STATUS}; {MASKS}; {DEVICES}; grep -c ' /sys sysfs rw' /proc/self/mounts",
    ),
    "privileged, a user": (("--privileged", "--user=1000"), f"{STATUS}; id -u; id -g"),
    "names": (
        ("--domainname=example.org",),
        f"hostname; cat /proc/sys/kernel/domainname; {ENVIRONMENT}",
    ),
    "a terminal": (("-t",), f"[ -t 0 ] && echo terminal; {ENVIRONMENT}"),
    "environment": (("-e", "A=1", "-e", "HOME=/own", "--user=7"), ENVIRONMENT),
    "no new privileges": (("--security-opt=no-new-privileges", "--init"), STATUS),
}


# The last capability of docker 20.10, and what runc sets without showing it.
LAST_CAPABILITY = 37
MODE_OF_DIRECTORY = ",mode=755"


def comparable(text: str) -> list[str]:
    """Return the lines without differences between versions of docker and runc."""
    lines = text.replace(MODE_OF_DIRECTORY, "").splitlines()
    known = (2 << LAST_CAPABILITY) - 1
    for number, line in enumerate(lines):
        name, tab, value = line.partition(":\t")
        if tab and name.startswith("Cap"):
            lines[number] = f"{name} {int(value, 16) & known:x}"
    return lines


@pytest.fixture
def ocid(work: Path, nothing_left: None) -> Iterator[Daemon]:
    with life(work) as one:
        yield one


def test_side_by_side(docker: Docker, ocid: Daemon) -> None:
    if not PEER.exists():
        pytest.skip("needs runc")
    image = f"docker-archive:{docker.home}/box.tar"
    different = {}
    for case, (options, script) in CASES.items():
        if "/dev/fuse" in str(options) and not Path("/dev/fuse").is_char_device():
            continue
        words = ("--rm", "--network=none", "--hostname=box", *options)
        command = ("sh", "-c", script)
        # runc does not start a container with capabilities that the caller lacks.
        runtime = "tested" if "--privileged" in options else "peer"
        done = docker.run(f"--runtime={runtime}", *words, NAME, *command)
        theirs = comparable(done.ok().out)
        ours = comparable(ocid.ctl("run", *words, image, *command).ok().out)
        if theirs != ours:
            lines = {line for line in {*theirs, *ours} if (line in theirs) != (line in ours)}
            different[case] = [
                ("docker" if one in theirs else "ocictl", one) for one in sorted(lines)
            ]
    assert different == {}
