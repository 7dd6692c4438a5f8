"""The procfs of a joined pid namespace, on kernels that take it as an option and on older ones."""

from __future__ import annotations

import errno
import os
import re
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ociruntime.base.linux import CLONE_NEWPID
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan.operation_table import NO_SLOT
from tests.support import rootfs
from tests.support.executor import entered, plan_of, run, shell
from tests.support.refusal import needs_joined_proc, refuse_fsconfig

pytestmark = [
    pytest.mark.usefixtures("nothing_left", "each_build"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]

FSCONFIG_SET_FD = 5


@pytest.fixture
def root(work: Path, programs: dict[str, Path]) -> Path:
    path = work / "root"
    rootfs.build(path, programs)
    return path


@pytest.fixture
def namespace() -> Iterator[str]:
    """A pid namespace whose init is a sleep."""
    with subprocess.Popen(["unshare", "-pf", "--kill-child", "sleep", "100"]) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not (first := children.read_text().split()):
            pass
        pidfd = os.pidfd_open(int(first[0]))
        yield f"/proc/{first[0]}/ns/pid"
        process.kill()
        # The kernel kills the namespace's init a moment later.
        assert select.select([pidfd], [], [], 60)[0]
        os.close(pidfd)


def as_before_6_17() -> None:
    refuse_fsconfig(errno.EINVAL, FSCONFIG_SET_FD)


FULL = """
import os, signal
with open("/proc/sys/kernel/pid_max", "w") as file:
    file.write("301")
try:
    while os.fork():
        pass
except OSError:
    print("full", flush=True)
signal.pause()
"""


def has_own_pid_max() -> bool:
    """Since Linux 6.14 each pid namespace has a limit of its own."""
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int(re.sub(r"\D.*", "", minor))) >= (6, 14)


@pytest.mark.skipif(not has_own_pid_max(), reason="needs Linux 6.14: a pid_max of each namespace")
@needs_joined_proc
def test_a_namespace_without_a_free_pid(root: Path) -> None:
    """The helper outside does not take itself for its child inside, and show the host."""
    command = ["unshare", "-pf", "--kill-child", "--mount-proc", sys.executable, "-c", FULL]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"full\n"
        first = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
        pidfd = os.pidfd_open(int(first))
        proc = o.mount(
            fstype="proc", source="proc", target="/proc", options=[], attributes=0,
            propagation=0, flags=0, id_map=NO_SLOT, label="",
        )  # fmt: skip
        steps = [
            o.open_namespace(slot=0, source=f"/proc/{first}/ns/pid"),
            o.join_namespace(slot=0, kind=CLONE_NEWPID),
            *entered(root, proc),
            o.close_host(),
            shell("cat /proc/1/comm"),
        ]
        outcome = run(plan_of(*steps), prepare=as_before_6_17)
        process.kill()
        assert select.select([pidfd], [], [], 60)[0]
        os.close(pidfd)
    assert outcome.output == ""
    assert outcome.fact is not None
    assert outcome.fact[1:] == ("fsopen", errno.EPERM, "proc")


@pytest.mark.parametrize("prepare", [None, as_before_6_17])
@needs_joined_proc
def test_shows_the_joined_namespace(
    root: Path, namespace: str, prepare: Callable[[], None] | None
) -> None:
    proc = o.mount(
        fstype="proc", source="proc", target="/proc", options=[], attributes=0,
        propagation=0, flags=0, id_map=NO_SLOT, label="",
    )  # fmt: skip
    steps = [
        o.open_namespace(slot=0, source=namespace),
        o.join_namespace(slot=0, kind=CLONE_NEWPID),
        *entered(root, proc),
        o.close_host(),
        o.clone_process(terminal=0),
        shell("cat /proc/1/comm; cd /proc; echo $((1 + 0)) self $(readlink self) $$"),
    ]
    words = run(plan_of(*steps), prepare=prepare).ok().output.split()
    assert words[0] == "sleep"
    assert len(words) == 5
