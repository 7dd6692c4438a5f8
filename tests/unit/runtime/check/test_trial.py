"""The test container of `ociruntime check`, and the errors that it reports."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from ociruntime.base.errors import HostError, StepError
from ociruntime.runtime.check import trial
from ociruntime.runtime.check.finding import MISSING, Json
from ociruntime.runtime.executor.protocol import LONG, SHORT, Message
from ociruntime.runtime.plan import operation_constructors as o
from ociruntime.runtime.plan import operation_table as ops
from ociruntime.runtime.plan.plan import Plan
from tests.unit.runtime.check.made_up_host import MadeUp


class FakeExecutor:
    """An executor whose messages are given; records what the trial does with it."""

    def __init__(self, *messages: Message) -> None:
        self.messages = [*messages, None]
        self.pid = 7
        self.plan = SimpleNamespace(operations=[o.unshare(flags=0)])
        self.channel = self
        self.done: list[object] = []

    def became(self, message: Message) -> None:
        self.pid = message.pid

    def discard(self) -> None:
        self.done.append("discard")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeExecutor:
    executor = FakeExecutor()
    monkeypatch.setattr(trial, "spawn", lambda *_: executor)
    monkeypatch.setattr(trial, "receive", lambda channel: channel.messages.pop(0))
    monkeypatch.setattr(trial, "go", lambda channel: channel.done.append("go"))
    monkeypatch.setattr(trial, "write_maps", lambda *maps: executor.done.append(maps))
    return executor


LINUX: Json = {"uidMappings": ["uids"], "gidMappings": ["gids"]}


def message(kind: int, value: int = 0, pid: int = 0) -> Message:
    return Message(SHORT.pack(kind, value, pid, 0))


def test_conversation(fake: FakeExecutor) -> None:
    """The maps are written for the process that has created the user namespace."""
    fake.messages[:0] = [
        message(ops.MESSAGE_INIT_PID, pid=8),
        message(ops.MESSAGE_STAGE, ops.STAGE_MAPS),
        message(ops.MESSAGE_STAGE, ops.STAGE_CGROUP),
        message(ops.MESSAGE_STAGE, ops.STAGE_READY),
    ]
    trial.build(Plan(), LINUX)
    assert fake.done == [(8, ["uids"], ["gids"]), "go", "go", "discard"]
    assert fake.messages == [None], "nothing is read after READY"


def test_killed_init(fake: FakeExecutor) -> None:
    with pytest.raises(StepError, match="init was killed"):
        trial.build(Plan(), LINUX)
    assert fake.done == ["discard"]


def test_failed_operation(fake: FakeExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy names the sysctl or filter that refuses the namespace."""
    monkeypatch.setattr(trial, "obstacle", lambda error: f"remedy of {error}")
    data = LONG.pack(ops.MESSAGE_FAILURE, 0, 0, errno.EIO, b"unshare", b"", b"")
    fake.messages.insert(0, Message(data))
    with pytest.raises(StepError, match=r"[Ii]nput/output error") as caught:
        trial.build(Plan(), LINUX)
    assert caught.value.hint == f"remedy of {errno.EIO}"
    assert fake.done == ["discard"]


@pytest.mark.parametrize(
    ("error", "found", "remedy"),
    [
        (HostError("start the executor", OSError(13, "Permission denied"), "mend it"),
         "start the executor: permission denied", "mend it"),
        (OSError(28, "No space left on device"),
         "test container: No space left on device", ""),
    ],
)  # fmt: skip
def test_error_is_the_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, found: str, remedy: str
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(trial, "build", refuse)
    answer = trial.trial(MadeUp({}))
    assert (answer.state, answer.remedy) == (MISSING, remedy)
    assert answer.found.endswith(found)
    assert list(tmp_path.iterdir()) == []


def test_no_temporary_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", f"{tmp_path}/gone")
    answer = trial.trial(MadeUp({}))
    assert answer.state == MISSING
    assert answer.found.endswith("temporary directory: No such file or directory")
