"""The monitor's control socket."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import HostError
from ociruntime.pods.loop.control_socket import Connection, ControlSocket
from ociruntime.pods.loop.event_loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    one = Loop()
    yield one
    one.close()


def answer(connection: Connection, request: dict[str, Any]) -> None:
    connection.answer(request)


def run_for(loop: Loop, seconds: float) -> None:
    def stop() -> None:
        loop.stopped = True

    loop.stopped = False
    loop.after(seconds, stop)
    loop.run()


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
    """It waits, and so do we: looking at it again and again would take a whole processor."""
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
