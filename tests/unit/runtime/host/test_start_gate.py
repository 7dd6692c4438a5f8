"""The start gate: detecting a waiting process, without ever blocking."""

from __future__ import annotations

import errno
import os
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


def test_socket_that_fails(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal does not count, and any other errno is no answer."""
    errors = [InterruptedError(errno.EINTR, ""), PermissionError(errno.EACCES, "Permission denied")]

    def fail(place: str, connect: object) -> None:
        raise errors.pop(0)

    monkeypatch.setattr(start_gate, "_by_short_path", fail)
    with pytest.raises(HostError, match=f'"{directory}/start": permission denied'):
        start_gate.is_waiting(directory)
    assert errors == []


def test_no_descriptor_left(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: int) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("_socket.socket", fail)
    for function in (start_gate.is_waiting, start_gate.connect_gate, start_gate.make_gate):
        with pytest.raises(HostError, match=f'"{directory}/start": too many open files'):
            function(directory)
