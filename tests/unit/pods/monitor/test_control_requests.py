"""Requests that a monitor cannot carry out, and answers that it cannot send."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.pods.bundle.runtime_calls import OWN_FAILURE
from ociruntime.pods.loop.control_socket import Connection
from ociruntime.pods.monitor.control_requests import Requests
from ociruntime.pods.monitor.monitor import Monitor


class Client:
    """A connection that records what it would send."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []

    def answer(self, value: dict[str, Any]) -> None:
        self.answers.append(value)


def say(text: str) -> None:
    """Fail like a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), text)


@pytest.fixture
def monitor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Monitor]:
    monkeypatch.chdir(tmp_path)
    Path("runtime-config").write_text('{"runtime": "/bin/true"}')
    one = Monitor(str(tmp_path), "uuid", os.open("/dev/null", os.O_RDONLY), say)
    monkeypatch.setattr(one, "end_if_done", lambda: None)
    yield one
    os.close(one.lock)
    one.loop.close()


@pytest.mark.parametrize("error", [HostError("fork", OSError(11, "")), OSError(28, "full")])
def test_halting_fails(monitor: Monitor, error: Exception) -> None:
    """The request was confirmed: the monitor exits at once, even without cleanup."""

    def fail(by: str, seconds: float) -> None:
        del by, seconds
        raise error

    monitor.halt = cast("Callable[..., None]", fail)  # type: ignore[method-assign]
    client = Client()
    Requests(monitor).handle(cast("Connection", client), {"op": "halt"})
    assert client.answers == [{}]
    assert isinstance(monitor.failure, RuntimeFailure)
    assert (monitor.code, monitor.halting) == (OWN_FAILURE, "halt")
    assert (str(error) if isinstance(error, HostError) else "full") in monitor.reason


def test_a_warning_that_cannot_be_written(monitor: Monitor) -> None:
    monitor.warn("something is left")
    assert monitor.failure is None
