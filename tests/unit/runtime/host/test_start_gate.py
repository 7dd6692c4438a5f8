"""The start gate: detecting a waiting process, without ever blocking."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError
from ociruntime.runtime.host import start_gate


@pytest.fixture(params=["short", "long" * 30])
def directory(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A socket's path may have 107 bytes, a state directory's more."""
    path = tmp_path / request.param
    path.mkdir()
    return str(path)


@pytest.fixture(autouse=True)
def _alarm() -> Iterator[None]:
    """What blocks is killed by the signal, which is what these tests are about."""
    signal.alarm(30)
    yield
    signal.alarm(0)


def test_nobody(directory: str) -> None:
    assert not start_gate.is_waiting(directory)
    assert start_gate.connect_gate(directory) is None


def test_somebody(directory: str) -> None:
    with closing(start_gate.make_gate(directory)):
        assert start_gate.is_waiting(directory)
        connection = start_gate.connect_gate(directory)
        assert connection is not None
        connection.close()
    assert not start_gate.is_waiting(directory), "the name is still there"
    assert start_gate.connect_gate(directory) is None
    start_gate.remove_gate(directory)


def test_asking_does_not_wait(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a startContainer hook runs, nothing accepts connections from the queue."""
    monkeypatch.setattr(start_gate, "BACKLOG", 1)
    with closing(start_gate.make_gate(directory)):
        assert all(start_gate.is_waiting(directory) for _ in range(5))


def test_no_socket(directory: str) -> None:
    """Anything else in its place is an error, not an answer."""
    with pytest.raises(HostError, match="/start"):
        start_gate.make_gate(directory + "/missing")


def test_full_queue_of_a_listener_that_another_process_holds(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that traces the waiting one can fill it, and keep it full."""
    monkeypatch.setattr(start_gate, "CONNECT_SECONDS", 0.05)
    with closing(start_gate.make_gate(directory)) as held:
        held.listen(0)
        first = start_gate.connect_gate(directory)
        assert first is not None
        with closing(first), pytest.raises(HostError, match="/start"):
            start_gate.connect_gate(directory)
