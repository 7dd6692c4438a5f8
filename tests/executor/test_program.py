"""The final process: its limits, user, environment and program."""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path

import pytest

from ociruntime.base.linux import RLIMITS
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan import operation_table as ops
from ociruntime.runtime.plan.plan import Operation
from tests.support import rootfs
from tests.support.executor import READY, Outcome, entered, plan_of, run, shell

pytestmark = pytest.mark.usefixtures("nothing_left", "each_build")

PROC = o.mount(
    fstype="proc", source="proc", target="/proc", options=[], attributes=0, propagation=0,
    flags=ops.MOUNT_REAL_DIRECTORY, id_map=ops.NO_SLOT, label="",
)  # fmt: skip


@pytest.fixture
def root(work: Path, programs: dict[str, Path]) -> Path:
    path = work / "root"
    rootfs.build(path, programs)
    return path


def in_entered(root: Path, script: str, *steps: Operation) -> Outcome:
    """Enter the root, take these steps and run the script."""
    return run(plan_of(*entered(root, PROC), *steps, shell(script))).ok()


def test_limits(root: Path) -> None:
    steps = (
        o.rlimit(resource=RLIMITS["RLIMIT_NOFILE"], soft=32, hard=64),
        o.personality(domain=8),
        o.io_priority(value=(2 << 13) | 6),
        o.scheduler(policy=3, flags=0, nice=5, priority=0, runtime=0, deadline=0, period=0),
        o.memory_policy(mode=0, nodes=b""),
        o.umask(mask=0o027),
        o.write_proc(path="self/oom_score_adj", data="17"),
    )
    script = """
        ulimit -n; ulimit -Hn; uname -m; umask; cat /proc/self/oom_score_adj
        cut -d' ' -f19,41 /proc/self/stat
    """
    output = in_entered(root, script, *steps[:-1]).output.splitlines()
    assert output == ["32", "64", "i686", "0027", output[4], "5 3"]
    adjusted = run(plan_of(steps[-1], *entered(root, PROC), shell(script))).ok().output
    assert adjusted.splitlines()[4] == "17"


def test_limits_do_not_hinder_the_executor(root: Path) -> None:
    """The program may open and write nothing; its start gate and hooks still can."""
    hook = o.hook(
        source="/bin/busybox", args=["sh", "-c", "cat > /seen; ulimit -n >> /seen"],
        env=["PATH=/bin"], with_home=0, timeout=10, state_before="<", state_after=">\n",
    )  # fmt: skip
    steps = [
        *entered(root),
        o.rlimit(resource=RLIMITS["RLIMIT_NOFILE"], soft=2, hard=3),
        o.rlimit(resource=RLIMITS["RLIMIT_FSIZE"], soft=0, hard=0),
        o.capabilities(effective=0, permitted=0, inheritable=0, ambient=0),
        o.home(uid=1000),
        *(READY, o.wait_start(), hook),
        shell("true"),
    ]
    assert run(plan_of(*steps)).fact is None
    seen = (root / "seen").read_text().split()
    assert seen[0].strip("<>").isdigit()
    assert int(seen[1]) > 3


def test_late_limits_of_the_program(root: Path) -> None:
    """They are there when it runs, behind a filter too."""
    steps = (
        o.rlimit(resource=RLIMITS["RLIMIT_NOFILE"], soft=20, hard=30),
        o.rlimit(resource=RLIMITS["RLIMIT_NOFILE"], soft=10, hard=20),
        o.rlimit(resource=RLIMITS["RLIMIT_FSIZE"], soft=4096, hard=1 << 20),
        o.seccomp(flags=0, last=1, filter=struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)),
    )
    script = "ulimit -n; ulimit -Hn; ulimit -f; ulimit -Hf"
    assert in_entered(root, script, *steps).output.split() == ["10", "20", "8", "2048"]


def test_filter_with_a_listener(root: Path) -> None:
    """The program has one thread, the limits that were to come late, and the filter."""
    steps = (
        o.rlimit(resource=RLIMITS["RLIMIT_NOFILE"], soft=10, hard=20),
        o.seccomp(flags=8, last=1, filter=struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)),
    )
    script = "ulimit -n; ls /proc/self/task | wc -l; grep Seccomp: /proc/self/status"
    assert in_entered(root, script, *steps).output.split() == ["10", "1", "Seccomp:", "2"]
    waiting = [*entered(root), READY, o.wait_start(), *steps, shell("true")]
    assert [one.kind for one in run(plan_of(*waiting)).ok().messages] == [
        ops.MESSAGE_STAGE,
        ops.MESSAGE_LISTENER,
        ops.MESSAGE_EXEC,
    ]


def test_identity(root: Path) -> None:
    kill = 1 << 5
    steps = (
        o.chdir(path="/home/user", optional=1),
        o.bounding(keep=kill),
        o.user(uid=1000, gid=50, groups=[7, 8], set_groups=1),
        o.capabilities(effective=kill, permitted=kill, inheritable=kill, ambient=kill),
        o.chdir(path="/home/user", optional=0),
        o.no_new_privs(),
        o.home(uid=1000),
        o.seccomp(flags=0, last=1, filter=struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)),
    )
    script = r"""
        id -u; id -g; id -G; pwd; echo $HOME
        sed -n 's/^\(Cap.*\|NoNewPrivs\|Seccomp\):\t/\1 /p' /proc/self/status
    """
    mask = f"{kill:016x}"
    (root / "home" / "user").chmod(0o700)
    os.chown(root / "home" / "user", 1000, 0)
    assert in_entered(root, script, *steps).output.splitlines() == [
        *("1000", "50", "50 7 8", "/home/user", "/home/user"),
        *(f"Cap{name} {mask}" for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")),
        *("NoNewPrivs 1", "Seccomp 2"),
    ]


@pytest.mark.parametrize(
    ("passwd", "home"),
    [
        ("a:x:1:1::/a:/bin/sh\nb:x:7:7::/b:/bin/sh\n", "/b"),
        ("b:x:7:7::/last", "/last"),
        ("b:x:7:7::relative:/bin/sh\n", "/"),
        ("b:x:07x:7::/b:/bin/sh\n", "/"),
        ("b:x:4294967303:7::/b:/bin/sh\n", "/"),
        ("b:x:7\n", "/"),
        ("# " + "x" * 9000 + "\nb:x:7:7::/behind:/bin/sh\n", "/behind"),
        ("\0\0\nb:x:7:7::/b:/bin/sh\n", "/"),
        ("", "/"),
        (None, "/"),
        ("fifo", "/"),
        ("directory", "/"),
        ("zero", "/"),
    ],
)
def test_home(root: Path, passwd: str | None, home: str) -> None:
    """The image's file may be anything; what is none of its lines means the root directory."""
    file = root / "etc" / "passwd"
    file.unlink()
    if passwd == "fifo":
        os.mkfifo(file)
    elif passwd == "directory":
        file.mkdir()
    elif passwd == "zero":
        os.mknod(file, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    elif passwd is not None:
        file.write_text(passwd)
    assert in_entered(root, "echo $HOME", o.home(uid=7)).output == f"{home}\n"


@pytest.mark.parametrize(
    ("file", "path", "found"),
    [
        ("tool", "/first:/second", "second"),
        ("tool", "/second:/third", "second"),
        ("tool", "", "here"),
        ("tool", "/none:", "here"),
        ("./tool", "/second", "here"),
        ("/third/tool", "/second", "third"),
        ("tool", f"/{'n' * 5000}:/third", "third"),
    ],
)
def test_find_executable(root: Path, file: str, path: str, found: str) -> None:
    """Like execvp(3): files that may not be executed are skipped."""
    for place in ("first", "second", "third", "here"):
        (root / place).mkdir()
        (root / place / "tool").write_text(f"#!/bin/busybox sh\necho {place}\n")
        (root / place / "tool").chmod(0o644 if place == "first" else 0o755)
    steps = (
        o.chdir(path="/here", optional=0),
        o.find_executable(file=file, path=path),
        o.exec(args=["any name"], env=[]),
    )
    assert run(plan_of(*entered(root), *steps)).ok().output == f"{found}\n"
