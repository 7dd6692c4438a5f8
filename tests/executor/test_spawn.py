"""Starting the executor: a failure leaves nothing behind."""

from __future__ import annotations

import gc
import os
import resource
import select
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError, InternalError, StepError
from ociruntime.base.linux import CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUTS
from ociruntime.runtime.executor import spawn as spawning
from ociruntime.runtime.executor.protocol import SHORT, Message, go, receive
from ociruntime.runtime.executor.spawn import spawn
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan import operation_table as ops
from ociruntime.runtime.plan.plan import Plan
from tests.support.descriptors import targets
from tests.support.executor import plan_of

NOWHERE = -1
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def gate() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
        one.bind("")
        one.listen(1)
        yield one


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Assert that each descriptor is closed and each child reaped."""
    before = targets()
    yield
    gc.collect()
    assert targets().items() <= before.items()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def waiting(flags: int = 0) -> Plan:
    plan = plan_of(o.sync(stage=ops.STAGE_HOOKS))
    plan.clone_flags = flags
    return plan


@pytest.mark.parametrize("content", [b"", b"text\n", b"\x7fELF"], ids=["empty", "text", "damaged"])
def test_no_program(
    gate: socket.socket, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "program").write_bytes(content)
    monkeypatch.setattr(spawning, "PROGRAM", str(tmp_path / "program"))
    with pytest.raises(HostError, match="execveat: exec format error"):
        spawn(waiting(), gate.fileno(), NOWHERE)


def test_not_installed(gate: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawning, "PROGRAM", "/no/such/program")
    with pytest.raises(HostError, match="/no/such/program"):
        spawn(waiting(), gate.fileno(), NOWHERE)


@pytest.mark.parametrize("size", [1, 20])
def test_no_room_for_a_file(gate: socket.socket, size: int) -> None:
    """RLIMIT_FSIZE cuts a memory file off: neither program nor plan is run half."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    big = plan_of(o.hostname(name="h" * (1 << 17)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size << 12, before[1]))
    try:
        with pytest.raises((HostError, InternalError)):
            spawn(big, gate.fileno(), NOWHERE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_no_cgroup(gate: socket.socket, tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(HostError, match="clone3"):
            spawn(waiting(), gate.fileno(), fd)
    finally:
        os.close(fd)


def test_impossible_flags(gate: socket.socket) -> None:
    shared_with_new_namespace = CLONE_NEWNS | 0x200
    with pytest.raises(HostError, match="clone3: invalid argument"):
        spawn(waiting(shared_with_new_namespace), gate.fileno(), NOWHERE)


@needs_root
def test_started(gate: socket.socket) -> None:
    """In its namespaces, from a sealed copy in memory, with nothing of the environment."""
    executor = spawn(waiting(CLONE_NEWPID | CLONE_NEWUTS), gate.fileno(), NOWHERE)
    message = receive(executor.channel)
    assert message is not None
    assert (message.kind, message.value) == (ops.MESSAGE_STAGE, ops.STAGE_HOOKS)
    place = Path(f"/proc/{executor.pid}")
    assert os.readlink(place / "exe") == "/memfd:ociruntime (deleted)"
    assert (place / "environ").read_bytes() == b""
    assert (place / "comm").read_text() == "ociruntime-init\n"
    assert os.readlink(place / "ns/uts") != os.readlink("/proc/self/ns/uts")
    with pytest.raises(OSError, match=r"busy|permitted"):
        (place / "exe").open("r+b")
    executor.kill()
    assert receive(executor.channel) is None
    executor.channel.close()
    os.close(executor.pidfd)


def pid_message(pid: int, sender: int) -> Message:
    return Message(SHORT.pack(ops.MESSAGE_INIT_PID, 0, pid, 0), sender=sender)


@needs_root
def test_only_a_child_becomes_the_first_process(gate: socket.socket) -> None:
    """A number that a traced executor has been made to say must not end another process."""
    executor = spawn(waiting(CLONE_NEWPID), gate.fileno(), NOWHERE)
    own = executor.pid
    with pytest.raises(HostError, match=r"process 1, .*: no child processes"):
        executor.became(pid_message(1, 1))
    assert executor.pid == own
    executor.discard()


@needs_root
@pytest.mark.parametrize("forks", [False, True], ids=["clone_init", "clone_process"])
def test_another_child_does_not_become_the_first_process(gate: socket.socket, forks: bool) -> None:
    """A holder of the channel may name any number, but cannot be another process."""
    plan = plan_of(o.sync(stage=ops.STAGE_HOOKS), *([o.clone_process(terminal=0)] * forks))
    executor = spawn(plan, gate.fileno(), NOWHERE)
    own = executor.pid
    with subprocess.Popen(["sleep", "1000"]) as other:
        for sender in (0, os.getpid(), *([other.pid] if forks else [own])):
            with pytest.raises(StepError, match=f"unexpected message: pid {other.pid}"):
                executor.became(pid_message(other.pid, sender))
        assert executor.pid == own
        assert other.poll() is None
        other.kill()
    executor.discard()


@needs_root
def test_the_first_process_is_named_once(gate: socket.socket) -> None:
    """The started process itself keeps its pidfd, and its successor cannot name another."""
    executor = spawn(waiting(), gate.fileno(), NOWHERE)
    executor.kill()
    with subprocess.Popen(["sleep", "1000"]) as born:
        executor.became(pid_message(born.pid, born.pid))
        assert executor.pid == born.pid
        with pytest.raises(StepError, match="unexpected message"):
            executor.became(pid_message(born.pid, born.pid))
        executor.discard()
        born.returncode = -9  # the executor has reaped it


@needs_root
def test_a_child_that_we_have_not_heard_of_is_killed(gate: socket.socket) -> None:
    """The runtime gives up before it has read INIT_PID; the fixture looks for children."""
    plan = plan_of(o.clone_process(terminal=0), o.sync(stage=ops.STAGE_HOOKS))
    executor = spawn(plan, gate.fileno(), NOWHERE)
    poller = select.poll()
    poller.register(executor.pidfd, select.POLLIN)
    assert poller.poll(10_000), "the parent has exited, and sent the child's number before"
    executor.discard()


@needs_root
def test_no_program_for_a_runtime_that_has_gone(tmp_path: Path) -> None:
    """Whatever has killed an `exec` takes it for failed."""
    ran = tmp_path / "ran"
    plan = plan_of(
        o.sync(stage=ops.STAGE_CGROUP),
        o.join_process(flags=0, root_of=0),
        o.exec(args=["/bin/touch", str(ran)], env=[]),
    )
    pidfd = os.pidfd_open(os.getpid())
    executor = spawn(plan, pidfd, NOWHERE)
    assert receive(executor.channel) is not None
    executor.channel.shutdown(socket.SHUT_RD)
    assert go(executor.channel)
    executor.reap()
    assert not ran.exists()
    executor.channel.close()
    os.close(executor.pidfd)
    os.close(pidfd)
