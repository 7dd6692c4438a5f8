"""Every system call of the executor fails in turn: it reports the failure, or does without."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ociruntime.base.linux import (
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWTIME,
    CLONE_NEWUTS,
    MOUNT_ATTR_RDONLY,
    MS_PRIVATE,
    MS_REC,
    S_IFCHR,
    S_IFIFO,
)
from ociruntime.runtime.executor.protocol import Message, go
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan import operation_table as ops
from ociruntime.runtime.plan.plan import Operation
from tests.executor.test_failures import ALLOW
from tests.executor.test_operations import CONSOLE, DEVPTS, PROC, bind, tmpfs
from tests.faults import running, stepping
from tests.faults.stepping import Action, Boundary
from tests.support import executor, refusal, rootfs
from tests.support.executor import READY, Outcome, before, entered, plan_of, shell

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(bool(stepping.missing()), reason=stepping.missing()),
    pytest.mark.needs_call(reason="a refused call cannot fail in another way"),
]

PROGRAM = shell("echo the program runs > /tmp/done")
LONG = ("mounts", "process")  # plans of several hundred calls
# After these, nothing can be reported: the channel to the runtime has failed.
CHANNEL = {"sendmsg", "recvmsg", "recvfrom", "sendto"}


def mounts(root: Path) -> list[Operation]:
    """Return a plan with all kinds of mounts."""
    copied = ops.MOUNT_COPY_UP | ops.MOUNT_INHERIT_MODE
    return entered(
        root,
        PROC,
        tmpfs("/full", "size=64k", flags=copied),
        tmpfs("/new/directory", attributes=MOUNT_ATTR_RDONLY),
        bind(root / "etc", "/new/etc", set_attributes=MOUNT_ATTR_RDONLY),
        bind(root / "etc" / "passwd", "/new/passwd"),
        o.set_attributes(
            target="/full", set_attributes=MOUNT_ATTR_RDONLY, clear_attributes=0, recursive=0,
            propagation=MS_PRIVATE,
        ),
        o.reconfigure(target="/full", options=["size=8m"]),
        o.unmount(target="/new/passwd", follow=1),
        o.mask(target="/full/file", context=""),
        o.mask(target="/etc", context=""),
        o.readonly(target="/proc/sys"),
        DEVPTS,
        CONSOLE,
    )  # fmt: skip


def files(root: Path) -> list[Operation]:
    """Return a plan that makes files and runs a hook."""
    return entered(
        root,
        PROC,
        o.mkdir(target="/made/of/several", mode=0o711),
        *(
            o.device(target=target, mode=mode, major=1, minor=3, uid=7, gid=8, source="/dev/null")
            for target, mode in (("/dev/null", S_IFCHR | 0o666), ("/made/fifo", S_IFIFO | 0o640))
        ),
        o.symlink(target="/dev/link", text="null", requires="/etc/passwd", replace=1),
        o.symlink(target="/dev/link", text="null", requires="", replace=1),
        o.null_streams(root_of=0),
        o.hook(
            source="/bin/true", args=["true"], env=["A=1"], with_home=0, timeout=10,
            state_before="<", state_after=">",
        ),
    )  # fmt: skip


def process(root: Path) -> list[Operation]:
    """Return a plan with all settings of a process."""
    return [
        *before(root, CLONE_NEWNET),
        PROC,
        o.pivot_root(),
        o.hostname(name="host"),
        o.domainname(name="domain"),
        o.loopback(),
        o.keyring(),
        o.write_proc(path="self/oom_score_adj", data="1000"),
        o.rlimit(resource=7, soft=64, hard=64),
        o.personality(domain=0),
        o.affinity(cpus=b""),
        o.io_priority(value=(2 << 13) + 4),
        o.scheduler(policy=0, flags=0, nice=1, priority=0, runtime=0, deadline=0, period=0),
        o.memory_policy(mode=0, nodes=b""),
        o.close_host(),
        o.stdio_owner(uid=1000),
        o.chdir(path="/tmp", optional=1),
        o.bounding(keep=0xFF),
        o.user(uid=1000, gid=1000, groups=[5, 6], set_groups=1),
        o.capabilities(effective=0xF, permitted=0xF, inheritable=0xF, ambient=0xF),
        o.chdir(path="/tmp", optional=0),
        o.no_new_privs(),
        o.umask(mask=0o22),
        o.home(uid=1000),
        o.listen_pid(),
        o.find_executable(file="busybox", path="/nowhere:/bin"),
        o.seccomp(flags=0, last=1, filter=ALLOW),
    ]


def init(root: Path) -> list[Operation]:
    """Return a plan with an init of its own, which waits for the start."""
    return [
        o.unshare(flags=CLONE_NEWTIME),
        o.write_proc(path="self/timens_offsets", data="boottime 86400000 0\n"),
        o.clone_init(flags=CLONE_NEWPID),
        *entered(root, PROC),
        READY,
        o.wait_start(),
    ]


def namespaces(root: Path) -> list[Operation]:
    """Return a plan that joins namespaces, and maps the ids of a mount: it needs the mount API."""
    tree = o.open_tree(
        slot=1, source=str(root / "etc"), follow=1, recursive=1, id_map=0, id_map_recursive=1
    )
    return [
        o.open_namespace(slot=2, source="/proc/self/ns/uts"),
        o.join_namespace(slot=2, kind=CLONE_NEWUTS),
        o.id_map(slot=0, uid_map="0 1000 1\n", gid_map="0 1000 1\n"),
        tree,
        *before(root),
        bind(root / "etc", "/mapped", slot=1),
        o.restrict(target="/mapped", set_attributes=MOUNT_ATTR_RDONLY),
        o.move_root(uncovered=["/proc"]),
        o.clone_process(terminal=0),
    ]


def shared(root: Path) -> list[Operation]:
    """Return a plan that uses a root without mounting it."""
    return [
        o.unshare(flags=CLONE_NEWNS),
        o.propagation(flags=MS_PRIVATE | MS_REC),
        o.shared_root(source=str(root)),
        o.null_streams(root_of=0),
        o.chroot(),
    ]


PLANS: dict[str, Callable[[Path], list[Operation]]] = {
    one.__name__: one for one in (mounts, files, process, init, namespaces, shared)
}


@pytest.fixture
def root(work: Path, programs: dict[str, Path]) -> Path:
    path = work / "root"
    rootfs.build(path, programs)
    full = path / "full"
    (full / "directory").mkdir(parents=True)
    (full / "file").write_text("x" * 5000)
    (full / "link").symlink_to("file")
    os.mkfifo(full / "fifo")
    (full / "directory" / "file").touch()
    return path


@pytest.fixture(scope="module")
def stepper(base: Path) -> Path:
    return stepping.build(base / "stepper")


def answer(message: Message, channel: socket.socket) -> None:
    """Let the executor continue; descriptors that it has sent stay open."""
    if message.kind in {ops.MESSAGE_STAGE, ops.MESSAGE_LISTENER, ops.MESSAGE_MOUNT}:
        go(channel)


def has_run(root: Path) -> bool:
    """Return whether the container's program has run since the last call."""
    done = root / "tmp" / "done"
    text = done.read_text() if done.exists() else ""
    done.unlink(missing_ok=True)
    return text == "the program runs\n"


def own(calls: list[Boundary]) -> list[Boundary]:
    """Return the calls of the executor, without those of the programs that it executes.

    The first is prctl(2).  What comes before it is the start of a C library, which the executor has
    only in ``./dev coverage``.
    """
    found, ended = [], set()
    begin = next(at for at, one in enumerate(calls) if one.call == "prctl")
    for one in calls[begin:]:
        if one.process not in ended:
            found.append(one)
        if one.call == "execve":
            ended.add(one.process)
    return found


def sample(actions: list[Action]) -> list[Action]:
    """Return an action for each call, each time with another of its errors.

    Interruptions are left out: no signal interrupts the executor without killing it.
    """
    by_call: dict[tuple[str, int | None, int], list[Action]] = {}
    for one in actions:
        if int(one.detail) != errno.EINTR:
            by_call.setdefault((one.process, one.number, one.index), []).append(one)
    return [group[at % len(group)] for at, group in enumerate(by_call.values())]


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        *((name, "kernel") for name in PLANS),
        *(
            pytest.param(name, "old kernel", marks=[pytest.mark.long] if name in LONG else [])
            for name in PLANS
            if name != "namespaces"
        ),
    ],
)
def test_each_call_fails(
    root: Path, stepper: Path, work: Path, name: str, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernel == "old kernel":
        monkeypatch.setattr(executor, "refused", (*refusal.CALLS, "statx"))
    plan = plan_of(*PLANS[name](root), PROGRAM)
    log = work / "log"

    def run(action: Action) -> Outcome:
        wrapper = [str(stepper), str(log), "follow", *action.words(), "--"]
        outcome = executor.run(plan, answer=answer, wrapper=wrapper)
        for fd in {message.fd for message in outcome.messages} - {-1}:
            os.close(fd)
        return outcome

    for _ in range(2):  # the first run makes files, for which it needs more calls
        outcome = run(running.LIST)
        assert has_run(root), outcome.fact
    problems = []
    calls = own(stepping.boundaries(log.read_text().splitlines()))
    for action in sample(running.failures(calls)):
        outcome = run(action)
        call = stepping.names()[action.number or 0]
        ran, fact = has_run(root), outcome.fact
        if ran and fact is not None:
            problems.append(f"{running.describe(action)}: the program ran after {fact}")
        if not ran and fact is None and call not in CHANNEL:
            problems.append(f"{running.describe(action)}: not reported: {outcome.output}")
    assert problems == []
