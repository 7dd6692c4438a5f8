"""How `exec` handles an executor's messages that another process may have forged."""

from __future__ import annotations

import array
import errno
import os
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ociruntime.base.errors import HostError, NotRunning, StepError
from ociruntime.runtime.executor.protocol import SHORT, Message
from ociruntime.runtime.executor.spawn import Executor
from ociruntime.runtime.lifecycle import exec_steps
from ociruntime.runtime.lifecycle.exec_steps import Execution
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan import operation_table as ops
from ociruntime.runtime.plan.plan import Operation


def test_an_announcement_before_the_pid_is_no_success() -> None:
    """The pid is still that of the parent, which leaves: `exec` would wait for that."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    execution: Any = Execution.__new__(Execution)
    operations = [o.clone_process(terminal=0), o.exec(args=["true"], env=[])]
    pidfd = os.pidfd_open(os.getpid())
    plan: Any = SimpleNamespace(operations=operations)
    execution.executor = Executor(plan, os.getpid(), pidfd, ours)
    execution._container = SimpleNamespace(alive=lambda: True, id="c")
    execution._caught = None
    execution._listener = -1
    execution._forks = True
    try:
        theirs.send(SHORT.pack(ops.MESSAGE_EXEC, 0, 0, 0))
        theirs.close()
        with pytest.raises(StepError):
            execution._converse()
    finally:
        ours.close()
        os.close(pidfd)


class FakeExecutor(SimpleNamespace):
    """An executor whose messages are given; it has forked its child already."""

    def __init__(self, *operations: Operation) -> None:
        ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(
            channel=ours,
            pid=71,
            pidfd=os.pidfd_open(os.getpid()),
            plan=SimpleNamespace(operations=list(operations)),
        )
        self.discarded = False

    def send(self, kind: int, value: int = 0, fd: int = -1) -> None:
        self.theirs.sendmsg([SHORT.pack(kind, value, 0, 0)], rights(fd))

    def receive(self) -> Message | None:
        return Executor.receive(cast("Executor", self))

    def discard(self) -> None:
        self.discarded = True

    def explain(self, failure: BaseException, root: str) -> None:
        pass

    def close(self) -> None:
        self.channel.close()
        self.theirs.close()
        os.close(self.pidfd)


def rights(fd: int) -> list[tuple[int, int, bytes]]:
    if fd < 0:
        return []
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]).tobytes())]


class Agent:
    """A seccomp agent; ``failure`` is raised when it gets a listener."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.handed: list[tuple[int, Any]] = []

    def hand_on(self, listener: int, pid: int, state: dict[str, Any]) -> None:
        os.fstat(listener)
        self.handed.append((pid, state))
        if self.failure is not None:
            raise self.failure


SECCOMP = (o.seccomp(flags=0, last=1, filter=b""), o.exec(args=["true"], env=[]))


@pytest.fixture
def executor() -> Iterator[FakeExecutor]:
    made = FakeExecutor(*SECCOMP)
    yield made
    made.close()


class Started(Execution):
    """An `exec` whose executor is already there."""

    def _spawn(self, plan: object, init_fd: int, born: bool) -> Any:  # noqa: ANN401
        return self.executor


def execution_of(executor: FakeExecutor, *, alive: bool = True, **members: object) -> Any:  # noqa: ANN401
    """Return the `exec` of ``executor`` in a container, of which nothing else exists."""
    container = SimpleNamespace(
        alive=lambda: alive,
        id="c",
        facts={"rootfs": "/rootfs"},
        seccomp_agent=lambda: members.get("agent"),
        pid=1,
        directory="/gone",
    )
    cgroup: Any = SimpleNamespace(open_v2=lambda: -1)
    execution: Any = Started(cast("Any", container), cgroup, None, True, (0, 1, 2), None)
    execution.executor = executor
    return execution


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A descriptor that stands for a seccomp listener."""
    monkeypatch.setattr(exec_steps, "check_listener", lambda message: None)
    monkeypatch.setattr(exec_steps, "document", lambda container, status: {"status": status})
    fd = os.open("/dev/null", os.O_RDONLY)
    yield fd
    os.close(fd)


def test_agent_gets_the_listener_first(executor: FakeExecutor, listener: int) -> None:
    """The program waits for GO, and runs once the agent has the listener."""
    agent = Agent()
    before = len(os.listdir("/proc/self/fd"))
    execution = execution_of(executor, agent=agent)
    executor.send(ops.MESSAGE_LISTENER, fd=listener)
    executor.send(ops.MESSAGE_EXEC)
    executor.theirs.shutdown(socket.SHUT_WR)
    execution._converse()
    assert agent.handed == [(71, {"status": "running"})]
    assert SHORT.unpack(executor.theirs.recv(100))[0] == ops.MESSAGE_GO
    assert len(os.listdir("/proc/self/fd")) == before, "the listener is closed here"


def test_unreachable_agent(executor: FakeExecutor, listener: int) -> None:
    """The program never runs, and no descriptor is left."""
    agent = Agent(HostError("connect to the agent", OSError(111, "Connection refused")))
    before = len(os.listdir("/proc/self/fd"))
    execution = execution_of(executor, agent=agent)
    executor.send(ops.MESSAGE_LISTENER, fd=listener)
    executor.theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(HostError, match="connection refused"):
        execution.run(executor.plan, -1, False)
    assert executor.discarded
    assert len(os.listdir("/proc/self/fd")) == before


def test_forged_listener(executor: FakeExecutor) -> None:
    """A descriptor that is no listener is refused and closed."""
    before = len(os.listdir("/proc/self/fd"))
    execution = execution_of(executor, agent=Agent())
    executor.send(ops.MESSAGE_LISTENER, fd=executor.pidfd)
    with pytest.raises(StepError, match="unexpected message"):
        execution.run(executor.plan, -1, False)
    assert executor.discarded
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("kind", [ops.MESSAGE_FAILURE, None])
def test_init_that_has_exited(executor: FakeExecutor, kind: int | None) -> None:
    """Whatever the executor reports, or not: the container does not run."""
    execution = execution_of(executor, alive=False)
    if kind is not None:
        executor.send(kind)
    executor.theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(NotRunning):
        execution.run(executor.plan, -1, False)
    assert executor.discarded


def test_failed_wait(executor: FakeExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    execution = execution_of(executor)
    monkeypatch.setattr(executor, "receive", fail)
    read_end, execution.master = os.pipe()
    with pytest.raises(HostError, match=r'container "c".*cannot allocate memory'):
        execution.run(executor.plan, -1, False)
    assert executor.discarded
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(execution.master)
    os.close(read_end)


@pytest.mark.parametrize(
    ("number", "beside", "moved"),
    [
        (errno.EACCES, False, True),
        (errno.EBUSY, True, True),
        (errno.EBUSY, False, False),
        (errno.ENOMEM, True, False),
    ],
)
def test_cgroup_that_refuses_a_new_process(
    monkeypatch: pytest.MonkeyPatch, number: int, beside: bool, moved: bool
) -> None:
    """The process is started outside, if it may enter the cgroup of the init instead."""
    started = []

    def spawn(plan: object, init_fd: int, cgroup_fd: int, **_: object) -> str:
        started.append(cgroup_fd)
        if cgroup_fd >= 0:
            raise HostError("start", OSError(number, os.strerror(number)))
        return "executor"

    monkeypatch.setattr(exec_steps, "spawn", spawn)
    execution: Any = Execution.__new__(Execution)
    fd = os.open("/", os.O_RDONLY)
    execution._cgroup = SimpleNamespace(open_v2=lambda: fd)
    execution._beside = 1 if beside else 0
    execution._streams = (0, 1, 2)
    execution._born = False
    if moved:
        assert execution._spawn(None, -1, True) == "executor"
        assert started == [fd, -1]
    else:
        with pytest.raises(HostError):
            execution._spawn(None, -1, True)
        assert started == [fd]
    assert not execution._born
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(fd)
