"""The program inherits only what it should from the process that started the executor."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.base.linux import CLONE_NEWPID, CLONE_NEWUSER
from ociruntime.runtime.executor.protocol import Message, go
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan import operation_table as ops
from tests.support import rootfs
from tests.support.executor import NO_STEP, READY, before, entered, plan_of, run, shell
from tests.support.refusal import refuse

pytestmark = pytest.mark.usefixtures("nothing_left", "each_build")

PROC = o.mount(
    fstype="proc", source="proc", target="/proc", options=[], attributes=0, propagation=0,
    flags=ops.MOUNT_REAL_DIRECTORY, id_map=ops.NO_SLOT, label="",
)  # fmt: skip
LIST_DESCRIPTORS = shell("cd /proc/self/fd; for fd in *; do test ! -e $fd || echo $fd; done")

libc = ctypes.CDLL(None)


@pytest.fixture
def root(work: Path, programs: dict[str, Path]) -> Path:
    path = work / "root"
    rootfs.build(path, programs)
    return path


@pytest.fixture
def leaked(work: Path) -> Iterator[list[int]]:
    """Descriptors of the caller without close-on-exec, with gaps between them."""
    opened = [os.open(work, os.O_RDONLY) for _ in range(40)]
    kept = [fd for fd in opened if fd % 3]
    for fd in opened:
        os.set_inheritable(fd, fd in kept)
    yield kept
    for fd in opened:
        os.close(fd)


def test_descriptors(root: Path, leaked: list[int]) -> None:
    """CVE-2024-21626."""
    outcome = run(plan_of(*entered(root, PROC), LIST_DESCRIPTORS), pass_fds=leaked).ok()
    assert outcome.output == "0\n1\n2\n"


@pytest.mark.parametrize("error", [1, 22, 38], ids=["EPERM", "EINVAL", "ENOSYS"])
def test_descriptors_without_close_range(root: Path, leaked: list[int], error: int) -> None:
    """An outer container's filter may be older than that call, the kernel than its flag."""
    plan = plan_of(*entered(root, PROC), LIST_DESCRIPTORS)
    outcome = run(plan, pass_fds=leaked, prepare=lambda: refuse(error, "close_range")).ok()
    assert outcome.output == "0\n1\n2\n"


@pytest.mark.parametrize("without_close_range", [False, True])
def test_preserved_descriptors(root: Path, work: Path, without_close_range: bool) -> None:
    """The program keeps 3 and 4; a hook gets neither."""
    hook = o.hook(
        source="/bin/busybox", args=["sh", "-c", "ls /proc/self/fd > /seen"], env=["PATH=/bin"],
        with_home=0, timeout=0, state_before="", state_after="",
    )  # fmt: skip
    script = "cat /seen; cd /proc/self/fd; for fd in *; do test ! -e $fd || echo $fd; done"
    plan = plan_of(*entered(root, PROC), hook, shell(script), preserve_fds=2)
    spare = os.open(work, os.O_RDONLY)

    def prepare() -> None:
        for fd in (3, 4):
            os.dup2(spare, fd)
        if without_close_range:
            refuse(38, "close_range")

    with _reserved(3, 4):
        outcome = run(plan, pass_fds=[3, 4], prepare=prepare).ok()
    os.close(spare)
    seen = outcome.output.split()
    assert seen[:4] == ["0", "1", "2", "3"], "3 is the directory that ls reads"
    assert seen[4:] == ["0", "1", "2", "3", "4"]


class _reserved:  # noqa: N801  # reads as a statement
    """Keep the executor's own descriptors off these numbers."""

    def __init__(self, *numbers: int) -> None:
        self._opened: list[int] = []
        self._numbers = numbers

    def __enter__(self) -> None:
        while not self._opened or self._opened[-1] <= max(self._numbers):
            self._opened.append(os.open("/", os.O_PATH))

    def __exit__(self, *_: object) -> None:
        for fd in self._opened:
            os.close(fd)


@pytest.mark.parametrize("count", [100, 0x7FFFFFFF])
def test_more_preserved_than_there_are(root: Path, count: int) -> None:
    """The executor's own sockets are never passed on."""
    plan = plan_of(*entered(root), shell("true"), preserve_fds=count)
    assert run(plan).fact == (NO_STEP, "verify", 9, "descriptors")


def test_waiting_process_has_only_its_gate(root: Path) -> None:
    """Between create and start."""
    held: list[str] = []

    def look(message: Message, channel: socket.socket) -> None:
        if message.kind == ops.MESSAGE_INIT_PID:
            pid.append(message.pid)
        elif message.value == ops.STAGE_READY:
            place = f"/proc/{pid[0]}/fd"
            held.extend(os.readlink(f"{place}/{fd}") for fd in os.listdir(place))
            go(channel)

    pid: list[int] = []
    steps = [
        *(o.clone_init(flags=CLONE_NEWPID), *before(root), PROC, o.pivot_root()),
        *(o.close_host(), READY, o.wait_start(), shell("true")),
    ]
    run(plan_of(*steps), answer=look).ok()
    assert [name for name in held if name.startswith("/") and "memfd:output" not in name] == [
        "/dev/null"
    ]
    assert sum(name.startswith("socket:") for name in held) == 2, held


def test_signals(root: Path) -> None:
    """What the caller blocks; what it ignores is reset by the start (runtime/test_process.py)."""

    def block_all() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

    plan = plan_of(*entered(root, PROC), o.exec(
        args=["/bin/busybox", "sed", "-n", "s/^SigBlk:\t//p", "/proc/self/status"],
        env=[],
    ))  # fmt: skip
    assert run(plan, prepare=block_all).ok().output.split() == ["0" * 16]


def test_session(root: Path) -> None:
    """CVE-2017-5226: no controlling terminal of the caller's to push input into."""
    script = "cut -d' ' -f6,7 /proc/self/stat; echo $$"
    session, terminal, pid = run(plan_of(*entered(root, PROC), shell(script))).ok().output.split()
    assert session == pid
    assert terminal == "0"


def test_nobody_may_look_into_it(root: Path) -> None:
    """CVE-2016-9962, CVE-2019-5736: not dumpable, in no stage and for no user."""
    seen: list[bool] = []

    def look(message: Message, channel: socket.socket) -> None:
        if message.kind == ops.MESSAGE_INIT_PID:
            pid.append(message.pid)
        elif message.kind == ops.MESSAGE_STAGE:
            # The files of a process that may not be dumped belong to root.
            seen.append(os.stat(f"/proc/{pid[0]}/environ").st_uid == 0)
            status = Path(f"/proc/{pid[0]}/status").read_text()
            users.append(status.partition("Uid:\t")[2].split()[0])
            go(channel)

    pid: list[int] = []
    users: list[str] = []
    steps = [
        *(o.clone_init(flags=CLONE_NEWPID), *before(root), PROC, o.pivot_root()),
        o.sync(stage=ops.STAGE_HOOKS),
        o.user(uid=1000, gid=1000, groups=[], set_groups=1),
        *(o.close_host(), READY, o.wait_start(), shell("true")),
    ]
    run(plan_of(*steps), answer=look).ok()
    assert seen == [True, True]
    assert users == ["0", "1000"]


def test_environment_and_arguments(root: Path) -> None:
    """Exactly those of the plan, of any bytes."""
    script = 'tr "\\0" "|" < /proc/self/environ'
    program = o.exec(
        args=["/bin/busybox", "sh", "-c", f"{script}; echo $1", "x", "\udcff"],
        env=["A=1", "A=2", "no equals sign", "", "B=\udcfe"],
    )  # fmt: skip
    output = run(plan_of(*entered(root, PROC), program)).ok().output
    assert output == "A=1|A=2|no equals sign||B=\ufffd|\ufffd\n"


def test_user_namespace(root: Path) -> None:
    """Maps written by the host while it waits; mapped root, and nothing dumpable after that."""

    def write_maps(message: Message, channel: socket.socket) -> None:
        if message.value == ops.STAGE_MAPS:
            for name in ("uid_map", "gid_map"):
                Path(f"/proc/{process(channel)}/{name}").write_text("0 100000 65536\n")
        go(channel)

    def process(channel: socket.socket) -> int:
        packed = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        own: int = struct.unpack("3i", packed)[0]
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        return int(children[-1])

    steps = [
        o.unshare(flags=CLONE_NEWUSER),
        o.sync(stage=ops.STAGE_MAPS),
        o.become_root(),
        shell("id -u"),
    ]
    for directory in (root, *root.parents[:2]):
        directory.chmod(0o755)
    assert run(plan_of(*steps), answer=write_maps).ok().output == "0\n"
