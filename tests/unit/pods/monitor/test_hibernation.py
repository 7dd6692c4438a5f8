"""A monitor has the same state before and after hibernation."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ociruntime.base import json_files
from ociruntime.base.errors import HostError
from ociruntime.pods.loop.control_socket import Connection, ControlSocket
from ociruntime.pods.loop.event_loop import READABLE, Loop
from ociruntime.pods.monitor import hibernation
from ociruntime.pods.monitor.app_streams import AppStreams
from ociruntime.pods.monitor.foreground_output import ForegroundCopy
from ociruntime.pods.monitor.log_writer import AppLog
from tests.support.descriptors import open_descriptors


@pytest.fixture
def loop() -> Iterator[Loop]:
    one = Loop()
    yield one
    one.close()


def is_quiet(one: Loop | AppStreams) -> bool:
    """Return the present value; a type checker expects an attribute not to change."""
    return one.is_quiet


def test_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(hibernation.VARIABLE, raising=False)
    waited = [hibernation.first_timeout()]
    for _ in range(5):
        waited.append(hibernation.next_timeout(waited[-1], 2.0))
    assert waited == [5, 10, 20, 40, 60, 60]
    assert hibernation.next_timeout(60, 59) == 60
    assert hibernation.next_timeout(60, 61) == 5
    monkeypatch.setenv(hibernation.VARIABLE, "0.5")
    assert hibernation.first_timeout() == hibernation.next_timeout(0.5, 2.0) == 0.5


def test_quiet(loop: Loop) -> None:
    """An event postpones it, and so does a pending timer."""
    reader, writer = os.pipe()
    calls: list[str] = []

    def read(events: int) -> None:
        del events
        calls.append(os.read(reader, 1).decode())

    def quiet() -> None:
        calls.append("quiet")
        loop.stopped = len(calls) > 3

    loop.watch(reader, READABLE, read)
    loop.idle_timeout = 0.01
    loop.on_quiet = quiet
    os.write(writer, b"x")
    loop.after(0.05, lambda: calls.append("time"))
    assert is_quiet(loop) is False
    loop.run()
    assert calls == ["x", "time", "quiet", "quiet"]
    assert is_quiet(loop) is True
    assert loop.descriptors() == [reader]
    os.write(writer, b"x")
    assert is_quiet(loop) is False
    os.read(reader, 1)
    os.kill(os.getpid(), signal.SIGUSR1)
    assert is_quiet(loop) is False
    os.close(reader)
    os.close(writer)


def test_nothing_to_execute(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hibernation, "PROGRAM", "/nowhere/_hibernation")
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-I", sys.argv[0]])
    reader, writer = os.pipe()
    before = open_descriptors()
    with pytest.raises(HostError, match='execute "/nowhere/_hibernation": no such file'):
        hibernation.hibernate(loop, "title", ["main.py"], {"a": 1}, [reader])
    assert open_descriptors() == before
    assert not os.get_inheritable(reader)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
    os.close(reader)
    os.close(writer)


def test_something_has_happened(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hibernation, "PROGRAM", "/nowhere/_hibernation")
    os.kill(os.getpid(), signal.SIGUSR1)
    hibernation.hibernate(loop, "title", ["main.py"], {}, [])  # nothing is executed


def test_waking_up() -> None:
    kept, watched = os.pipe()
    os.set_inheritable(kept, True)
    memory = os.memfd_create("monitor", 0)
    note = {"kept": [kept], "watched": watched, "since": 0.0, "mask": [int(signal.SIGUSR2)]}
    os.write(memory, json_files.text_of({**note, "more": "é" * 50_000}))
    found = hibernation.load_snapshot(memory)
    assert found["more"] == "é" * 50_000
    assert found["slept"] > 0
    assert not os.get_inheritable(kept)
    for fd in (memory, watched):
        with pytest.raises(OSError, match="descriptor"):
            os.fstat(fd)
    os.close(kept)
    hibernation.restore_signal_mask(found)
    assert signal.pthread_sigmask(signal.SIG_SETMASK, []) == {signal.SIGUSR2}


def test_waking_up_without_anything() -> None:
    with pytest.raises(HostError, match="snapshot: bad file descriptor"):
        hibernation.load_snapshot(-1)


def test_streams(loop: Loop) -> None:
    first = AppStreams(loop)
    first.make({"stdin": "stream", "stdout": "log", "stderr": "log"}, terminal=False)
    app = [os.dup(fd) for fd in first.app_ends]
    first.read()
    assert is_quiet(first) is False  # the app has not got its descriptors
    first.close_app_ends()
    assert is_quiet(first) is True
    for fd in loop.descriptors():
        loop.forget(fd)

    second = AppStreams(loop)
    second.restore(json_files.parse(json_files.text_of(first.snapshot()), "it"))
    came: list[tuple[str, bytes]] = []
    second.sinks.append(lambda stream, data: came.append((stream, data)))
    os.write(app[1], b"out")
    os.write(app[2], b"err")
    loop.after(0.02, lambda: setattr(loop, "stopped", True))
    loop.run()
    assert sorted(came) == [("stderr", b"err"), ("stdout", b"out")]
    assert (second.has_input, second.has_terminal) == (True, False)
    assert second.put(b"in")
    assert os.read(app[0], 10) == b"in"
    second.put(b"x" * 100_000)
    assert is_quiet(second) is False
    for fd in app:
        os.close(fd)
    second.close()


def test_log(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    first = AppLog(str(path), limit=200)
    first.write("stdout", b"one")
    second = AppLog(str(path), 200, first.descriptor)
    for _ in range(4):
        second.write("stdout", b"more\n")
    second.close()
    texts = [file.read_text() for file in sorted(tmp_path.iterdir(), reverse=True)]
    assert [line.split(" ", 2)[2] for line in "".join(texts).splitlines()] == [
        "P one",
        *(["F more"] * 4),
    ]
    assert len(texts) == 2, "its size is known again"


def test_foreground(loop: Loop) -> None:
    reader, writer = os.pipe()
    first = ForegroundCopy(loop, writer)
    first.write("a: ", b"begin")
    second = ForegroundCopy(loop, writer)
    open_line, dropped = json_files.parse(json_files.text_of({"it": first.snapshot()}), "it")["it"]
    second.restore((open_line, dropped))
    second.write("a: ", b"-end\n")
    assert os.read(reader, 100) == b"a: begin-end\n"
    for one in (first, second):
        one.close()
    os.close(reader)
    os.close(writer)


def test_control_socket(loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def answer(connection: Connection, request: dict[str, object]) -> None:
        connection.answer({"said": request["say"]})
        loop.stopped = True

    first = ControlSocket(loop, "ctl", answer)
    fd = os.dup(first.descriptor)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect("ctl")
        loop.forget(first.descriptor)
        second = ControlSocket(loop, "ctl", answer, fd)
        client.send(b'{"say": "hello"}')
        loop.run()
        assert json_files.parse(client.recv(100), "it") == {"ok": True, "said": "hello"}
        second.close()
    first.close()
