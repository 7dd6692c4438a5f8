"""The monitor's control socket."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import HostError, PodError
from ociruntime.pods.loop.control_socket import Connection, ControlSocket, answer_of, ask
from ociruntime.pods.loop.event_loop import Loop
from tests.unit.pods.event_loops import run_for


@pytest.fixture
def loop() -> Iterator[Loop]:
    one = Loop()
    yield one
    one.close()


def answer(connection: Connection, request: dict[str, Any]) -> None:
    connection.answer(request)


def test_a_place_that_is_taken(loop: Loop, tmp_path: Path) -> None:
    path = str(tmp_path / "ctl")
    first = ControlSocket(loop, path, answer)
    with pytest.raises(HostError, match=f'"{path}": address already in use'):
        ControlSocket(loop, path, answer)
    first.close()
    assert not Path(path).exists()


def test_a_request_that_its_handler_cannot_take(loop: Loop, tmp_path: Path) -> None:
    """A client may send anything; the pod keeps running."""

    def handler(connection: Connection, request: dict[str, Any]) -> None:
        connection.answer({"count": len(request["streams"])})

    control = ControlSocket(loop, str(tmp_path / "ctl"), handler)
    hostile = [b'{"streams": 5}', b"{}", b"[", b"[" * 60000, b"\xff", b'{"streams": "\\ud800"}']
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(str(tmp_path / "ctl"))
        for message in hostile:
            client.send(message)
            run_for(loop, 0.05)
            assert b'"ok"' in client.recv(65536)
        client.send(b'{"streams": [1]}')
        run_for(loop, 0.05)
        assert b'"ok":true' in client.recv(65536).replace(b" ", b"")
    control.close()


def test_a_client_without_a_descriptor_for_it(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both wait: accepting repeatedly would use a whole CPU."""
    attempts = []
    accept = ControlSocket._accept

    def counted(self: ControlSocket, events: int) -> None:
        attempts.append(events)
        accept(self, events)

    monkeypatch.setattr(ControlSocket, "_accept", counted)
    control = ControlSocket(loop, str(tmp_path / "ctl"), answer)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(str(tmp_path / "ctl"))
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            run_for(loop, 0.25)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert 0 < len(attempts) < 20
        client.send(b'{"op": "hello"}')
        run_for(loop, 0.25)
        assert client.recv(1000) == b'{"ok":true,"op":"hello"}'
    control.close()
    run_for(loop, 0.15)


def test_an_end_while_it_rests(loop: Loop, tmp_path: Path) -> None:
    control = ControlSocket(loop, str(tmp_path / "ctl"), answer)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(str(tmp_path / "ctl"))
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            run_for(loop, 0.01)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        control.close()
        run_for(loop, 0.15)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The monitor's end of a connection, and the client's."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ends[0].setblocking(False)
    yield ends
    for end in ends:
        end.close()


def connected(loop: Loop, end: socket.socket) -> tuple[Connection, list[Connection], list[str]]:
    """A connection, the list of all connections, and the calls at its close."""
    every: list[Connection] = []
    closed: list[str] = []
    one = Connection(loop, end, answer, every)
    one.on_close = lambda: closed.append("closed")
    every.append(one)
    return one, every, closed


def test_a_client_that_disconnects(loop: Loop, pair: tuple[socket.socket, socket.socket]) -> None:
    """It is detected while nothing is read, and a second close does nothing."""
    one, every, closed = connected(loop, pair[0])
    one.pause(True)
    pair[1].close()
    run_for(loop, 0.02)
    one.close()
    one.send(b"late")
    one.pause(False)
    assert (every, closed) == ([], ["closed"])


def test_a_client_that_disconnects_before_an_answer(
    loop: Loop, pair: tuple[socket.socket, socket.socket]
) -> None:
    one, every, closed = connected(loop, pair[0])
    pair[1].close()
    one.send(b"answer")
    assert (every, closed) == ([], ["closed"])


def test_nothing_to_receive(loop: Loop, pair: tuple[socket.socket, socket.socket]) -> None:
    """poll(2) may report a message that no longer exists when it is read."""
    one, every, closed = connected(loop, pair[0])
    one._receive()
    assert (every, closed) == ([one], [])


def test_a_slow_client_at_the_end(loop: Loop, pair: tuple[socket.socket, socket.socket]) -> None:
    """Output beyond the limit is dropped; the rest is sent before the connection is closed."""
    one, every, closed = connected(loop, pair[0])
    chunk = b"o" + bytes(1 << 16)
    while not one.dropped:
        one.send(chunk)
    one.send(b"x0", needed=True)
    one.finish()
    pair[1].send(b'{"ignored": true}')
    run_for(loop, 0.02)
    assert (every, closed) == ([one], [])
    pair[1].settimeout(0.01)
    messages = []
    while not closed:
        run_for(loop, 0.001)
        try:
            messages.append(pair[1].recv(1 << 17))
        except TimeoutError:
            continue
    pair[1].settimeout(5)
    while message := pair[1].recv(1 << 17):
        messages.append(message)
    assert messages[-1] == b"x0"
    assert set(messages[:-1]) == {chunk}
    assert one.dropped % len(chunk) == 0


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"", "before it answered"),
        (b'{"ok": false, "error": "no", "hint": "try"}', r"no \(try\)"),
        (b"[]", "the monitor's answer"),
    ],
)
def test_answers_that_are_errors(message: bytes, expected: str) -> None:
    with pytest.raises(PodError, match=expected):
        answer_of(message)


def test_requests_over_a_broken_connection(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[0].close()
    pair[1].settimeout(1)
    with pytest.raises(HostError, match="monitor: broken pipe"):
        ask(pair[1], {"op": "status"})
