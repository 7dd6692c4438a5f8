"""Messages of a bus that are trusted, and errors when the connection breaks."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("jeepney")

from jeepney import (
    DBusAddress,
    HeaderFields,
    Message,
    Parser,
    new_method_return,
    new_signal,
)

from ociruntime.base.errors import HostError
from ociruntime.runtime.cgroups import systemd_bus

SYSTEMD, STRANGER = ":1.1", ":1.66"
JOB = "/org/freedesktop/systemd1/job/7"
ANSWERS: dict[str, tuple[str, tuple[object, ...]]] = {
    "StartTransientUnit": ("o", (JOB,)),
    "Hello": ("s", (":1.9",)),
}
PROPERTIES = {"ControlGroup": "/", "Version": "252.39"}


def job_removed(sender: str, result: str) -> Message:
    manager = DBusAddress("/org/freedesktop/systemd1", interface="org.freedesktop.systemd1.Manager")
    signal = new_signal(manager, "JobRemoved", "uoss", (7, JOB, "a.scope", result))
    signal.header.fields[HeaderFields.sender] = sender
    return signal


class Bus:
    """Answers as a bus with systemd on it; then come ``signals``, and the end."""

    def __init__(self, path: Path) -> None:
        self.signals: list[Message] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(20)
        self._listener.bind(str(path))
        self._listener.listen()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with self._listener, connection:
            connection.settimeout(20)
            for answer in (b"DATA\r\n", b"OK 0123\r\n"):
                connection.recv(4096)
                connection.sendall(answer)
            data = connection.recv(65536).partition(b"BEGIN\r\n")[2]
            parser = Parser()
            while True:
                parser.add_data(data)
                while (call := parser.get_next_message()) is not None:
                    if self._answer(connection, call):
                        return
                data = connection.recv(65536)
                if not data:
                    return

    def _answer(self, connection: socket.socket, call: Message) -> bool:
        name = call.header.fields[HeaderFields.member]
        answer = ANSWERS.get(name, (None, ()))
        if name == "Get":
            answer = "v", (("s", PROPERTIES[call.body[1]]),)
        reply = new_method_return(call, *answer)
        reply.header.fields[HeaderFields.sender] = SYSTEMD
        connection.sendall(reply.serialise(1))
        if name != "StartTransientUnit":
            return False
        for signal in self.signals:
            connection.sendall(signal.serialise(2))
        return True


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bus]:
    monkeypatch.setattr(systemd_bus, "BOOTED", str(tmp_path))
    monkeypatch.setattr(systemd_bus, "addresses", lambda user: [(f"{tmp_path}/bus", False)])
    made = Bus(tmp_path / "bus")
    yield made
    made.thread.join(20)


def start(signals: list[Message], bus: Bus) -> None:
    manager = systemd_bus.SystemdManager(user=False)
    bus.signals = signals
    try:
        manager.start_transient("a.scope", [])
    finally:
        manager.close()


def test_end_of_a_job_is_told_by_systemd_alone(bus: Bus) -> None:
    """Any client on the bus can send us a signal, and guess the job."""
    start([job_removed(STRANGER, "failed"), job_removed(SYSTEMD, "done")], bus)


def test_failed_job(bus: Bus) -> None:
    with pytest.raises(HostError, match=r'a\.scope.* "failed"'):
        start([job_removed(STRANGER, "done"), job_removed(SYSTEMD, "failed")], bus)


def test_bus_that_breaks_off(bus: Bus) -> None:
    with pytest.raises(HostError, match=r"a\.scope: .*closed the connection"):
        start([], bus)
