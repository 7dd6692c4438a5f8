"""The message to a seccomp agent, and when the agent may close the connection."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import HostError
from ociruntime.runtime.host import seccomp_agent
from ociruntime.runtime.host.seccomp_agent import SeccompAgent
from tests.support.descriptors import open_descriptors

STATE = {"id": "one", "status": "creating"}


def listening(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    return server


def test_a_state_of_several_messages_has_the_descriptor_with_the_first(tmp_path: Path) -> None:
    pieces: list[tuple[bytes, list[int]]] = []

    def take() -> None:
        connection, _ = server.accept()
        with connection:
            while not pieces or pieces[-1][0]:
                data, fds, _, _ = socket.recv_fds(connection, 4096, 4)
                pieces.append((data, fds))

    with listening(tmp_path / "agent") as server, (tmp_path / "file").open("wb") as file:
        thread = threading.Thread(target=take)
        thread.start()
        agent = SeccompAgent(str(tmp_path / "agent"), "m" * 1_000_000)
        agent.hand_on(file.fileno(), 7, STATE)
        thread.join()
    assert [len(fds) for _, fds in pieces] == [1] + [0] * (len(pieces) - 1)
    assert os.readlink(f"/proc/self/fd/{pieces[0][1][0]}") == str(tmp_path / "file")
    os.close(pieces[0][1][0])
    assert json.loads(b"".join(data for data, _ in pieces)) == {
        "ociVersion": "1.3.0",
        "fds": ["seccompFd"],
        "pid": 7,
        "metadata": "m" * 1_000_000,
        "state": STATE,
    }


def test_no_metadata() -> None:
    assert "metadata" not in seccomp_agent.process_state(7, None, STATE)
    assert seccomp_agent.process_state(7, "", STATE)["metadata"] == ""


def test_an_agent_that_never_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp_agent, "SECONDS", 0.05)
    before = open_descriptors()
    with listening(tmp_path / "agent"):
        agent = SeccompAgent(str(tmp_path / "agent"), "m" * 10_000_000)
        with pytest.raises(HostError, match=r'".*": timed out'):
            agent.hand_on(0, 7, STATE)
    assert open_descriptors() == before


class ReadsOnce:
    """Our end of a connection to an agent that reads once and closes."""

    def __init__(self) -> None:
        self._sock, self._agent = socket.socketpair()
        self.received = b""

    def sendmsg(self, *arguments: Any) -> int:  # noqa: ANN401
        sent = self._sock.sendmsg(*arguments)
        self.received, fds, _, _ = socket.recv_fds(self._agent, 1 << 20, 1)
        self._agent.close()
        os.close(fds[0])
        return sent

    def sendall(self, data: bytes, flags: int) -> None:
        self._sock.sendall(data, flags)

    def close(self) -> None:
        self._sock.close()


def test_nothing_is_sent_behind_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = ReadsOnce()
    monkeypatch.setattr(seccomp_agent, "connect", lambda *_: connection)
    with open("/dev/null", "rb") as file:
        SeccompAgent("/agent", "data").hand_on(file.fileno(), 12, STATE)
    told = json.loads(connection.received)
    assert (told["pid"], told["metadata"], told["state"]) == (12, "data", STATE)
