"""Errors of `start` name the container."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ociruntime.base.errors import HostError
from ociruntime.runtime.lifecycle import start as module


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
