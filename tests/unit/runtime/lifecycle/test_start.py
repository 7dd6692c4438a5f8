"""Errors of `start` name the container."""

from __future__ import annotations

import array
import errno
import os
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ociruntime.base.errors import HookError, HostError, StepError
from ociruntime.base.process import start_time
from ociruntime.runtime.executor.protocol import SHORT
from ociruntime.runtime.lifecycle import start as module
from ociruntime.runtime.plan import operation_table as ops


class BrokenPoll:
    """A poll object whose wait fails."""

    def register(self, descriptor: int, events: int) -> None:
        pass

    def poll(self, milliseconds: int | None) -> list[tuple[int, int]]:
        raise OSError(12, "no memory")


def test_the_wait_for_the_init(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "poll", BrokenPoll)
    container, connection = SimpleNamespace(id="web"), SimpleNamespace(fileno=lambda: 5)
    with pytest.raises(HostError, match='start container "web": '):
        module._await_exec(cast("Any", container), None, cast("Any", connection), 6)


def container_of(**members: object) -> Any:  # noqa: ANN401
    """Return a created container whose init is this process."""
    facts = {"startSteps": [[3, 20, "process"]], "notified": False, "hooks": {}}
    return SimpleNamespace(
        id="web",
        directory="/gone",
        pid=os.getpid(),
        started=start_time(os.getpid()),
        seccomp_agent=lambda: None,
        status=lambda: "created",
        facts=facts,
        **members,
    )


CONTEXT: Any = SimpleNamespace(alone=True, mark=lambda phase: None)


class Init:
    """The init's end of the start gate: sends messages, once it has the GO."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        monkeypatch.setattr(module, "connect_gate", lambda directory: self.ours)
        monkeypatch.setattr(module, "EXEC_MILLISECONDS", 1)

    def send(self, kind: int, *fds: int) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds).tobytes())]
        self.theirs.sendmsg([SHORT.pack(kind, 0, 0, 0)], rights if fds else [])


@pytest.fixture
def init(monkeypatch: pytest.MonkeyPatch) -> Iterator[Init]:
    made = Init(monkeypatch)
    before = len(os.listdir("/proc/self/fd"))
    yield made
    assert len(os.listdir("/proc/self/fd")) == before - 1, "only the connection was closed"
    made.theirs.close()


def test_program_runs(init: Init, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate is closed for good; a message that somebody adds is dropped with its file."""
    removed: list[str] = []
    monkeypatch.setattr(module, "remove_gate", removed.append)
    init.send(ops.MESSAGE_EXEC)
    init.send(ops.MESSAGE_CONSOLE, init.theirs.fileno())
    assert module.start_locked(CONTEXT, container_of(), 1) is None
    assert removed == ["/gone"]
    assert SHORT.unpack(init.theirs.recv(100))[0] == ops.MESSAGE_GO


def test_gate_that_cannot_be_removed(init: Init, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(directory: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(module, "remove_gate", fail)
    init.send(ops.MESSAGE_EXEC)
    with pytest.raises(HostError, match='"/gone/start": read-only'):
        module.start_locked(CONTEXT, container_of(), 1)


@pytest.mark.parametrize("kind", [ops.MESSAGE_CONSOLE, ops.MESSAGE_LISTENER])
def test_forged_message(init: Init, kind: int) -> None:
    """A listener is unexpected without an agent that could receive it."""
    init.send(kind, init.theirs.fileno())
    with pytest.raises(StepError, match="unexpected message"):
        module.start_locked(CONTEXT, container_of(), 1)


def test_listener_without_a_descriptor(init: Init) -> None:
    container = container_of()
    container.seccomp_agent = SimpleNamespace
    init.send(ops.MESSAGE_LISTENER)
    with pytest.raises(StepError, match="unexpected message: listener"):
        module.start_locked(CONTEXT, container, 1)


DEAD = 'already dead: "web"$'


def test_init_that_no_longer_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has closed the gate, or has exited without reading."""
    monkeypatch.setattr(module, "connect_gate", lambda directory: None)
    with pytest.raises(StepError, match=DEAD):
        module.start_locked(CONTEXT, container_of(), 1)


def test_init_that_exits_before_the_go(init: Init, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "go", lambda connection: False)
    with pytest.raises(StepError, match=DEAD):
        module.start_locked(CONTEXT, container_of(), 1)


def test_init_whose_pid_was_reused(init: Init) -> None:
    container = container_of()
    container.started += 1
    with pytest.raises(StepError, match=DEAD):
        module.start_locked(CONTEXT, container, 1)


def test_unreadable_failure() -> None:
    """The descriptor that the fast path has passed is closed."""
    with pytest.raises(HostError, match=f"--failure-fd {1 << 20}: bad file"):
        module._report_from_file(CONTEXT, container_of(), 1 << 20)


@pytest.mark.parametrize("deletes", [True, False])
def test_failed_poststart_hook(monkeypatch: pytest.MonkeyPatch, deletes: bool) -> None:
    """`run` deletes the container itself."""

    def fail(*_: object) -> None:
        raise HookError("hooks.poststart[0]: failed")

    deleted: list[object] = []
    monkeypatch.setattr("ociruntime.runtime.host.hooks.run_host_hooks", fail)
    monkeypatch.setattr(module, "_destroy", lambda context, container: deleted.append(container))
    monkeypatch.setattr(module, "document", lambda container, status: {})
    log = SimpleNamespace(debug=None)
    context: Any = SimpleNamespace(alone=True, mark=lambda phase: None, log=log)
    container = container_of(annotations={}, enter_bundle=lambda: None, alive=lambda: True)
    container.facts["hooks"] = {"poststart": [{"path": "/h"}]}
    with pytest.raises(HookError):
        module._run_poststart(context, container, deletes=deletes)
    assert deleted == [container] * deletes
