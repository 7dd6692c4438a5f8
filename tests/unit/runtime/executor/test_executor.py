"""The executor's process as its starter sees it: its child, its end, and forged messages."""

from __future__ import annotations

import errno
import os
import posix
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

import ociruntime
from ociruntime.base.errors import HostError, InternalError, RuntimeFailure, StepError
from ociruntime.runtime.executor import protocol, spawn
from ociruntime.runtime.executor.protocol import SHORT, Message
from ociruntime.runtime.executor.spawn import Executor, plan_file
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan import operation_table as ops
from ociruntime.runtime.plan.plan import Plan


def init_pid(pid: int, sender: int) -> Message:
    return Message(SHORT.pack(ops.MESSAGE_INIT_PID, 0, pid, 0), sender=sender)


@pytest.fixture
def children() -> Iterator[list[int]]:
    """Two processes that stand for the executor and its child; both are killed at the end."""
    processes = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    yield [each.pid for each in processes]
    for each in processes:
        each.kill()
        each.wait()


def executor_of(pid: int, *, parent_reports: bool = False) -> tuple[Executor, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    plan = Plan()
    plan.operations = [o.clone_process(terminal=0)] if parent_reports else []
    return Executor(plan, pid, os.pidfd_open(pid), ours), theirs


def is_running(pid: int) -> bool:
    """Return whether a process runs; reap it if it has exited."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


@pytest.mark.parametrize("parent_reports", [False, True])
def test_child(children: list[int], parent_reports: bool) -> None:
    """The parent exits, and is reaped, once it has forked the init."""
    parent, child = children
    executor, theirs = executor_of(parent, parent_reports=parent_reports)
    os.kill(parent, 9)
    executor.became(init_pid(child, parent if parent_reports else child))
    assert executor.pid == child
    assert not is_running(parent)
    with pytest.raises(StepError, match="unexpected message"):
        executor.became(init_pid(parent, parent))
    executor.discard()
    theirs.close()
    assert not is_running(child)


@pytest.mark.parametrize("parent_reports", [False, True])
def test_wrong_sender(children: list[int], parent_reports: bool) -> None:
    """Only one process can report the child: any other sender has forged the message."""
    parent, child = children
    executor, theirs = executor_of(parent, parent_reports=parent_reports)
    with pytest.raises(StepError, match="unexpected message"):
        executor.became(init_pid(child, child if parent_reports else parent))
    assert executor.pid == parent
    theirs.close()
    executor.discard()
    assert is_running(child)


def test_foreign_process(children: list[int]) -> None:
    """A process that is not our child is never killed in the executor's place."""
    executor, theirs = executor_of(children[0])
    with pytest.raises(HostError, match=r"open process 1, .*: no child"):
        executor.became(init_pid(1, 1))
    assert executor.pid == children[0]
    theirs.close()
    executor.discard()


def test_discard_kills_an_unreported_child(
    children: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its INIT_PID waits in the socket, behind messages that other processes have forged."""
    parent, child = children
    executor, theirs = executor_of(parent)
    received, spare = os.pipe()
    console = Message(SHORT.pack(ops.MESSAGE_CONSOLE, 0, 0, 0), received, 7)
    queued = [console, init_pid(os.getpid(), 7), init_pid(child, child)]
    monkeypatch.setattr(spawn, "receive", lambda _: queued.pop(0) if queued else None)
    executor.discard()
    theirs.close()
    assert not is_running(parent)
    assert not is_running(child)
    assert executor.channel.fileno() == -1
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(received)
    os.close(spare)


def test_discard_twice(children: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has been reaped, and a socket that fails, do not stop the clean-up."""

    def fail(_: object) -> Message:
        raise HostError("receive", OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)))

    executor, theirs = executor_of(children[0])
    theirs.close()
    executor.kill()
    monkeypatch.setattr(spawn, "receive", fail)
    executor.discard()
    assert executor.channel.fileno() == -1


def test_incomplete_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.listdir("/proc/self/fd")
    with monkeypatch.context() as patch:
        patch.setattr(posix, "write", lambda fd, data: len(data) - 1)
        with pytest.raises(InternalError):
            plan_file(b"plan")
    assert os.listdir("/proc/self/fd") == before


def no_descriptor(*_: object) -> int:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_no_descriptor_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posix, "memfd_create", no_descriptor)
    with pytest.raises(HostError, match="memory file: too many open files"):
        plan_file(b"plan")
    monkeypatch.setattr("_socket.socketpair", no_descriptor)
    with pytest.raises(HostError, match="socket pair: too many open files"):
        spawn._pair()


def test_broken_extension_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ociruntime._system_calls", None)
    monkeypatch.delattr(ociruntime, "_system_calls", raising=False)
    with pytest.raises(RuntimeFailure, match="_system_calls"):
        spawn._start(Plan(), {})


def test_reset_connection() -> None:
    """The kernel reports ECONNRESET for an executor that has exited with a GO unread."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        assert protocol.go(ours)
        theirs.close()
        assert protocol.receive(ours) is None
        assert protocol.receive(ours) is None
        assert not protocol.skip(ours)


def test_failed_socket() -> None:
    """A failed send raises an error: if it were ignored, the executor would wait forever."""
    closed = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    closed.close()
    with pytest.raises(HostError, match="executor: bad file descriptor"):
        protocol.receive(closed)
    with pytest.raises(HostError, match="executor: bad file descriptor"):
        protocol.go(closed)


def test_skip() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        assert protocol.skip(ours)
        assert SHORT.unpack(theirs.recv(100))[0] == ops.MESSAGE_SKIP
