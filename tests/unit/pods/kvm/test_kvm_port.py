"""An app's port of a virtual machine whose guest violates the protocol."""

from __future__ import annotations

import errno
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from struct import pack

import pytest

from ociruntime.base.errors import HostError, PodError
from ociruntime.pods.kvm import virtio_port
from ociruntime.pods.loop.control_socket import listen
from tests.support import processes

ENDED = os.WEXITED | os.WNOWAIT


def answered(path: Path, say: Callable[[socket.socket], None]) -> threading.Thread:
    """Accept a connection at ``path``, like qemu, and answer for the guest."""
    listener = listen(str(path), socket.SOCK_STREAM, 2)

    def serve() -> None:
        with socket.socket(fileno=listener.detach()) as own:
            one, _ = own.accept()
            with one:
                one.recv(3)
                say(one)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def wait(asked: threading.Event) -> None:
    asked.wait(10)


def test_another_answer(tmp_path: Path) -> None:
    guest = answered(tmp_path / "1", lambda one: one.sendall(pack(virtio_port.HEAD, b"z", 0)))
    with pytest.raises(PodError, match="unexpected reply b'z'"):
        virtio_port.start_app(str(tmp_path / "1"), [-1, -1, -1])
    guest.join()


def test_the_guests_own_words(tmp_path: Path) -> None:
    words = b'execute "/x": no such file'
    frame = pack(virtio_port.HEAD, virtio_port.FAILED, len(words)) + words
    guest = answered(tmp_path / "1", lambda one: one.sendall(frame))
    with pytest.raises(PodError) as caught:
        virtio_port.start_app(str(tmp_path / "1"), [-1, -1, -1])
    assert str(caught.value) == words.decode()
    guest.join()


def test_it_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtio_port, "BOOT_TIMEOUT", 0.02)
    asked = threading.Event()
    guest = answered(tmp_path / "1", lambda one: wait(asked))
    with pytest.raises(PodError, match=r"timeout after 0 s"):
        virtio_port.start_app(str(tmp_path / "1"), [-1, -1, -1])
    asked.set()
    guest.join()


def test_it_ends(tmp_path: Path) -> None:
    guest = answered(tmp_path / "1", lambda one: None)
    with pytest.raises(PodError, match="has exited"):
        virtio_port.start_app(str(tmp_path / "1"), [-1, -1, -1])
    guest.join()
    with pytest.raises(PodError, match="has exited"):
        virtio_port.start_app(str(tmp_path / "nobody"), [-1, -1, -1])


def test_an_app_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtio_port, "END_TIMEOUT", 0.05)
    asked = threading.Event()
    guest = answered(tmp_path / "1", lambda one: wait(asked))
    with pytest.raises(PodError, match="timed out"):
        virtio_port.end_app(str(tmp_path / "1"))
    asked.set()
    guest.join()


def test_an_app_whose_machine_exits(tmp_path: Path) -> None:
    """The app has stopped with it."""
    guest = answered(tmp_path / "1", lambda one: None)
    virtio_port.end_app(str(tmp_path / "1"))
    guest.join()

    class Reset:
        error: OSError = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")

        def sendall(self, data: bytes) -> None:
            raise self.error

        def close(self) -> None:
            pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(virtio_port, "_connect", lambda *_: Reset())
        virtio_port.end_app("socket")
        Reset.error = OSError(errno.ENOMEM, "Cannot allocate memory")
        with pytest.raises(PodError, match="machine: cannot allocate memory"):
            virtio_port.end_app("socket")


def test_an_app_without_what_stands_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtio_port, "PROGRAM", "/no/guest")
    guest = answered(
        tmp_path / "1", lambda one: one.sendall(pack(virtio_port.HEAD, virtio_port.RUNNING, 0))
    )
    with pytest.raises(HostError, match='start "/no/guest": no such file or directory'):
        virtio_port.start_app(str(tmp_path / "1"), [-1, -1, -1])
    guest.join()


def test_a_guest_that_sends_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The app's output is not an answer: all of it counts towards the timeout."""
    monkeypatch.setattr(virtio_port, "END_TIMEOUT", 0.2)
    monkeypatch.setattr(virtio_port, "BOOT_TIMEOUT", 0.2)

    def drip(one: socket.socket) -> None:
        try:
            while True:
                one.sendall(b"x")
                time.sleep(0.01)
        except OSError:
            pass

    guest = answered(tmp_path / "1", drip)
    with pytest.raises(PodError, match="timed out"):
        virtio_port.end_app(str(tmp_path / "1"))
    guest.join()
    guest = answered(tmp_path / "2", drip)
    with pytest.raises(PodError, match="timeout after"):
        virtio_port.start_app(str(tmp_path / "2"), [-1, -1, -1])
    guest.join()


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGTSTP, signal.SIGCONT, signal.SIGCHLD])
def test_a_guest_that_names_a_signal_that_ends_nothing(tmp_path: Path, number: int) -> None:
    """The proxy exits nevertheless; if it stopped, it could only be killed."""
    ours, theirs = socket.socketpair()
    pid = os.posix_spawn(
        virtio_port.PROGRAM,
        ["ocipod-app"],
        {},
        file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 3)],
    )
    theirs.close()
    ours.sendall(pack(virtio_port.HEAD, b"x", 4) + pack("<I", number))
    ended = processes.until(lambda: os.waitid(os.P_PID, pid, ENDED | os.WNOHANG) is not None)
    os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    ours.close()
    assert ended
    assert os.waitstatus_to_exitcode(status) == 128 + number
