from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

import pytest

from ociruntime.errors import HostError
from ociruntime.host import seccomp_agent
from ociruntime.host.seccomp_agent import SeccompAgent
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
        with pytest.raises(HostError, match=r'tell the seccomp agent ".*": timed out'):
            agent.hand_on(0, 7, STATE)
    assert open_descriptors() == before
