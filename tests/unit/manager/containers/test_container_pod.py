"""A pod whose lock is released after the event that its holder has exited."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ociruntime.manager.containers import container_pod
from ociruntime.manager.containers.container_pod import ContainerPod


class Watcher:
    """An inotify watcher; ``calls`` are the callbacks in the order of their watches."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def watch(self, directory: str, events: int, call: Any) -> int:  # noqa: ANN401
        self.calls.append(call)
        return len(self.calls)


def test_an_event_before_the_release_of_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod is looked at again later, though no other event follows."""
    monkeypatch.setattr(container_pod, "_RECHECKS", (0.01, 0.02))
    watcher = Watcher()
    handle = SimpleNamespace(pod=lambda: SimpleNamespace(fd=3))
    services = SimpleNamespace(watcher=watcher, pod_handle=lambda uuid: handle)
    changes: list[str] = []

    async def close_event() -> int:
        pod = ContainerPod(cast("Any", services), "1", "uuid", lambda: changes.append("seen"))
        pod.watch()
        watcher.calls[0]()
        at_once = len(changes)
        await asyncio.sleep(0.2)
        return at_once

    assert asyncio.run(close_event()) == 1
    assert len(changes) == 3
