"""The executor of `mounts add` and `mounts remove`, and the record of added mounts."""

from __future__ import annotations

import array
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base.errors import HostError, NotRunning, RuntimeFailure, StepError
from ociruntime.base.mountinfo import parse_mountinfo
from ociruntime.base.process import end_on_signals, start_time
from ociruntime.runtime.executor.protocol import SHORT
from ociruntime.runtime.host.mount_namespaces import MountId, mount_id
from ociruntime.runtime.lifecycle import mounts_add_remove as module
from ociruntime.runtime.lifecycle.mounts_add_remove import AddedMount, check_removal
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan import operation_table as ops
from ociruntime.runtime.plan.plan import Plan

PLAN = Plan()
PLAN.operations = [o.unmount(target="/data", follow=0, where="mounts[0]")]
OWN = os.getpid()
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Fake = Any


class FakeExecutor:
    """An executor whose messages are given; ``killed`` is set once it is killed."""

    def __init__(self) -> None:
        self.channel, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = OWN
        self.pidfd = os.pidfd_open(OWN)
        self.killed = False

    def send(self, kind: int, value: int = 0, fd: int = -1) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]).tobytes())]
        self.theirs.sendmsg([SHORT.pack(kind, value, 0, 0)], rights if fd >= 0 else [])

    def kill(self) -> None:
        assert self.channel.fileno() < 0, "at its end, an executor that cannot be killed exits"
        self.killed = True


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeExecutor]:
    made = FakeExecutor()
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(module, "spawn", lambda *_: made)
    yield made
    assert made.killed
    assert len(os.listdir("/proc/self/fd")) == before - 2, "its channel and pidfd are closed"
    made.theirs.close()


def carry_out(answer: bool = True) -> list[Any]:
    """Carry out the plan; return what was recognised."""
    found: list[Any] = []

    def recognise(operation: object, mount: MountId, shown: object) -> bool:
        found.append((operation, mount))
        return answer

    module.carry_out(PLAN, OWN, start_time(OWN), recognise)
    return found


@pytest.mark.parametrize(("answer", "reply"), [(True, ops.MESSAGE_GO), (False, ops.MESSAGE_SKIP)])
def test_mount(executor: FakeExecutor, answer: bool, reply: int) -> None:
    with open("/dev/null") as file:
        executor.send(ops.MESSAGE_MOUNT, fd=file.fileno())
        number = mount_id(file.fileno())
    executor.send(ops.MESSAGE_STAGE, ops.STAGE_DONE)
    ((operation, found),) = carry_out(answer)
    assert operation is PLAN.operations[0]
    assert found.is_same(number)
    assert SHORT.unpack(executor.theirs.recv(100))[0] == reply


def test_killed_executor(executor: FakeExecutor) -> None:
    executor.theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(StepError, match=f"process {OWN}: .*killed"):
        carry_out()


@pytest.mark.parametrize(
    ("kind", "value"), [(ops.MESSAGE_STAGE, ops.STAGE_READY), (ops.MESSAGE_MOUNT, 0), (99, 0)]
)
def test_forged_message(executor: FakeExecutor, kind: int, value: int) -> None:
    """A mount without a descriptor is forged, too."""
    executor.send(kind, value)
    with pytest.raises(StepError, match="unexpected message"):
        carry_out()


def test_unreadable_mounts(executor: FakeExecutor) -> None:
    executor.pid = 1 << 22
    with open("/dev/null") as file:
        executor.send(ops.MESSAGE_MOUNT, fd=file.fileno())
    with pytest.raises(HostError, match=f'read "/proc/{executor.pid}/mountinfo": no such file'):
        carry_out()


def test_init_that_has_exited() -> None:
    with pytest.raises(NotRunning):
        module.carry_out(PLAN, OWN, start_time(OWN) + 1, lambda *_: True)


def test_record_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r'write ".*/gone/mounts\.json": no such file'):
        module.write_added(f"{tmp_path}/gone", [])
    (tmp_path / "mounts.json").mkdir()
    with pytest.raises(HostError, match=r'read ".*/mounts\.json": is a directory'):
        module.read_added(str(tmp_path))


SHOWN = {
    mount.id: mount
    for mount in parse_mountinfo(
        "30 1 0:30 / /data rw - tmpfs t rw\n31 1 0:31 / /moved rw - tmpfs t rw\n"
        "1 0 0:1 / / rw - ext4 t rw\n"
    )
}


def removal(target: str, number: int, *added: AddedMount) -> None:
    check_removal(target, "mounts[0]", MountId(number, 0), added, SHOWN)


def test_removal() -> None:
    """Without a record, the path must be a mount point; else its mount must be the recorded one."""
    removal("/data", 30)
    removal("/data", 30, AddedMount("/data", MountId(30, 0)))
    with pytest.raises(StepError, match='"/data": nothing is'):
        removal("/data", 1)
    with pytest.raises(StepError, match='"/data": nothing is'):
        removal("/data", 99)
    with pytest.raises(StepError, match='mount, at "/data"') as caught:
        removal("/data", 30, AddedMount("/data", MountId(31, 0)))
    assert '"/moved"' in caught.value.hint


@pytest.fixture
def container(tmp_path: Path) -> Fake:
    facts = {"bundle": "/b", "rootfs": "/b/r"}
    return SimpleNamespace(
        id="web", pid=OWN, started=0, directory=str(tmp_path), facts=facts, config=dict,
        alive=lambda: True,
    )  # fmt: skip


ADDED = AddedMount("/data", MountId(30, 0))


@pytest.mark.parametrize(("alive", "count"), [(True, 1), (False, 0)])
def test_undo_that_fails(
    container: Fake,
    monkeypatch: pytest.MonkeyPatch,
    alive: bool,
    count: int,
) -> None:
    """Once the container has exited, its mounts are gone, and nothing has failed."""

    def fail(*_: object) -> None:
        raise RuntimeFailure("busy")

    container.alive = lambda: alive
    monkeypatch.setattr(module, "carry_out", fail)
    assert module._undo(container, PLAN, ADDED) == ["busy"] * count


def test_undo(container: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a mount that was attached is unmounted; its record goes in both cases."""
    answers = []

    def carry(plan: Plan, pid: int, started: int, recognise: Fake) -> None:
        for shown in ([], list(SHOWN.values())):
            answers.append(recognise(plan.operations[0], ADDED.id, shown))

    monkeypatch.setattr(module, "carry_out", carry)
    module.write_added(container.directory, [ADDED])
    assert module._undo(container, PLAN, ADDED) == []
    assert answers == [False, True]
    assert module.read_added(container.directory) == []


class Adding:
    """`mounts add` of two mounts, of which the second ends with an exception, if any."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: BaseException | None) -> None:
        self.undone: list[str] = []
        self.failures: list[str] = []
        self.warnings: list[str] = []
        self.error = error
        plan = Plan()
        plan.warnings = ["plan: a warning"]
        for name in ("gather", "compile_undoing", "_request", "_running", "validate_mounts"):
            monkeypatch.setattr(module, name, lambda *_: None)
        monkeypatch.setattr(module, "compile_adding", lambda *_: plan)
        monkeypatch.setattr(module, "carry_out", self.carry_out)
        monkeypatch.setattr(module, "_undo", self.undo)

    def carry_out(self, plan: Plan, pid: int, started: int, record: Fake) -> None:
        for number, mount in SHOWN.items():
            if number != 1:
                operation = o.unmount(target=mount.target, follow=0)
                assert record(operation, MountId(number, 0), list(SHOWN.values()))
        if self.error:
            raise self.error

    def undo(self, container: object, plan: Plan, added: AddedMount) -> list[str]:
        self.undone.append(added.destination)
        return self.failures

    def __call__(self, container: Fake) -> None:
        context: Any = SimpleNamespace(log=SimpleNamespace(warning=self.warnings.append))
        module._add(context, container, [])


@pytest.mark.parametrize("failures", [[], ["busy"]])
def test_failed_add(
    container: Fake,
    monkeypatch: pytest.MonkeyPatch,
    failures: list[str],
) -> None:
    """All mounts that were made are unmounted, the last one first."""
    adding = Adding(monkeypatch, StepError("no room"))
    adding.failures = failures
    with pytest.raises(StepError, match="no room") as caught:
        adding(container)
    assert adding.undone == ["/moved", "/data"]
    assert ("busy; busy" in caught.value.message) is bool(failures)
    assert adding.warnings == ["plan: a warning"]


def test_interrupted_add(container: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    adding = Adding(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        adding(container)
    assert adding.undone == ["/moved", "/data"]


def test_interrupted_when_all_is_added(container: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mounts stay, so the command must not fail."""
    adding = Adding(monkeypatch, None)
    before = {each: signal.getsignal(each) for each in ENDING}
    try:
        end_on_signals()
        adding(container)
        os.kill(OWN, signal.SIGINT)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert adding.undone == []
