"""Steps of `create` whose init exits without a message: an error, or not."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base.errors import HostError
from ociruntime.base.log import Log
from ociruntime.base.process import end_on_signals
from ociruntime.runtime.lifecycle import run
from ociruntime.runtime.lifecycle.container import Container
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.lifecycle.create_steps import Creation
from ociruntime.runtime.lifecycle.rollback import Rollback

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"memory": {"limit": 4096}}, "linux.resources.memory.limit: 4096 bytes"),
        ({"memory": {"swap": 4096}}, "OOM-killed (it has no"),
        ({}, "OOM-killed (it has no"),
    ],
)
def test_killed_for_want_of_memory(resources: Any, words: str) -> None:  # noqa: ANN401
    """The kernel also counts what a limit further up has killed."""
    cgroup = SimpleNamespace(oom_killed=lambda: True, unit="")
    prepared: Any = SimpleNamespace(cgroup=cgroup, resources=resources)
    creation = Creation(Context("/nowhere", Log()), CreateOptions("c1", "/nowhere"), prepared)
    assert words in str(creation._vanished())


def test_an_init_killed_once_the_container_is_published_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another command may `kill` a published container before its `create` has returned."""
    ours, executors = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    creation = object.__new__(Creation)
    creation.executor = SimpleNamespace(pidfd=-1, channel=ours)  # type: ignore[assignment]

    def publish(_creation: Creation, _pidfd: int) -> None:
        executors.close()  # as the kernel does for a killed process

    monkeypatch.setattr(Creation, "_publish", publish)
    creation._commit()
    assert ours.fileno() == -1


@pytest.fixture
def ending_signals() -> Iterator[None]:
    """The signals that end a command interrupt this process, as they do the program."""
    before = {number: signal.getsignal(number) for number in ENDING}
    end_on_signals()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("ending_signals")
def test_a_signal_while_undoing_skips_no_poststop_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """They release what other hooks have taken; and the error of `create` is not lost."""
    creation = object.__new__(Creation)
    creation._context = Context("/nowhere", Log())
    creation._rollback = Rollback(Log())
    done: list[str] = []

    def begin(creation: Creation) -> None:
        creation._rollback.push(lambda: done.append("removed"))
        creation._rollback.push(lambda: os.kill(os.getpid(), signal.SIGTERM))
        raise HostError("create the cgroup", OSError(28, "no space left on device"))

    monkeypatch.setattr(Creation, "_begin", begin)
    monkeypatch.setattr(Creation, "_after_failure", lambda _: done.append("poststop"))
    with pytest.raises(HostError, match="no space left"):
        creation.run()
    assert done == ["removed", "poststop"]


@pytest.mark.usefixtures("ending_signals")
def test_a_signal_while_run_deletes_what_it_could_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`run` leaves nothing after a failed hook."""
    done: list[str] = []

    def destroy(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        done.append("removed")

    monkeypatch.setattr(run, "destroy", destroy)
    container = Container("c1", "/nowhere", {})
    run._undo(Context("/nowhere", Log()), container)
    assert done == ["removed"]
