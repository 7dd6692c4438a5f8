"""Steps of `create` whose init exits without a message: an error, or not."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from ociruntime.base.log import Log
from ociruntime.runtime.lifecycle.context import Context, CreateOptions
from ociruntime.runtime.lifecycle.create_steps import Creation


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
