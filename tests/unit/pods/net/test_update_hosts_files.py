"""Hosts files that cannot be written, and helper processes that cannot be started."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import time
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError
from ociruntime.pods.net import update_hosts_files
from ociruntime.pods.net.update_hosts_files import BEGIN, END

BLOCK = b"10.0.0.2 one\n"


def hosts(directory: Path, text: bytes = b"127.0.0.1 localhost\n") -> str:
    path = directory / "hosts"
    path.write_bytes(text)
    update_hosts_files.create_lock(str(path))
    return str(path)


def written(path: str) -> bytes:
    return Path(path).read_bytes()


def test_a_text_without_a_line_feed_at_its_end() -> None:
    """Our first line must not become part of an app's last line."""
    made = update_hosts_files.with_block(b"127.0.0.1 localhost", BLOCK)
    assert made == b"127.0.0.1 localhost\n" + BEGIN + BLOCK + END
    assert update_hosts_files.with_block(made, b"") == b"127.0.0.1 localhost\n" + BEGIN + END
    assert update_hosts_files.with_block(b"", BLOCK) == BEGIN + BLOCK + END


def test_a_disk_that_fills_up_during_a_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partial lines would be worse than none: the previous text stays."""
    path = hosts(tmp_path)
    original = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: original(fd, data[:4], at))
    with pytest.raises(OSError, match="no space left on device"):
        update_hosts_files.update(path, BLOCK)
    assert written(path).split(b"\n")[0] == b"127.0.0.1 localhost"
    assert BEGIN not in written(path)


@pytest.mark.parametrize("call", ["pipe2", "fork"])
def test_no_helper_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = hosts(tmp_path)
    before = os.listdir("/proc/self/fd")
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def fail(*_: object) -> None:
        raise OSError(11, os.strerror(11))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        message = "start a .* that updates .* files: resource temporarily unavailable"
        with pytest.raises(HostError, match=message):
            update_hosts_files.write_all(str(tmp_path), {"uuid": path}, lambda _: BLOCK)
    assert os.listdir("/proc/self/fd") == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask


def test_a_caller_that_ignores_sigchld(tmp_path: Path) -> None:
    path = hosts(tmp_path)
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        update_hosts_files.write_all(str(tmp_path), {"uuid": path}, lambda _: BLOCK)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert BLOCK in written(path)


def test_files_without_lines_or_locks(tmp_path: Path) -> None:
    """The pod has just exited, or another helper writes the file: it is not changed."""
    path = hosts(tmp_path)
    update_hosts_files._write_newest(path, "uuid", lambda _: None)
    held = os.open(path + update_hosts_files.LOCK_SUFFIX, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    update_hosts_files._write_newest(path, "uuid", lambda _: BLOCK)
    os.close(held)
    assert BLOCK not in written(path)
    os.unlink(path + update_hosts_files.LOCK_SUFFIX)
    update_hosts_files._write_newest(path, "uuid", lambda _: BLOCK)
    assert BLOCK not in written(path)


def test_lines_that_change_while_they_are_written(tmp_path: Path) -> None:
    """A helper with newer lines found the file locked: this one writes them, too."""
    path = hosts(tmp_path)
    versions = [b"10.0.0.2 old\n", BLOCK, BLOCK, BLOCK]
    update_hosts_files._write_newest(path, "uuid", lambda _: versions.pop(0))
    assert written(path).endswith(BEGIN + BLOCK + END)
    assert versions == []


def test_an_error_of_a_write_ends_no_helper(tmp_path: Path) -> None:
    path = hosts(tmp_path)
    os.unlink(path)
    os.mkfifo(path)
    update_hosts_files._write_newest(path, "uuid", lambda _: BLOCK)
    os.unlink(path)
    update_hosts_files._write_newest(path, "uuid", lambda _: BLOCK)
    assert os.listdir(tmp_path) == ["hosts.lock"]


def test_a_report_that_nobody_reads() -> None:
    reader, writer = os.pipe()
    update_hosts_files._report(writer, 7)
    assert os.read(reader, 8) == b"\7\0\0\0"
    os.close(reader)
    update_hosts_files._report(writer, 7)
    os.close(writer)


def test_waiting_ends_at_the_deadline() -> None:
    reader, writer = os.pipe()
    pending = {0: ("a", "/a"), 1: ("b", "/b")}
    update_hosts_files._report(writer, 1)
    update_hosts_files._report(writer, 9)
    update_hosts_files._collect(reader, pending, time.monotonic() + 0.05)
    assert pending == {0: ("a", "/a")}
    os.close(writer)
    update_hosts_files._collect(reader, pending, time.monotonic() + 60)
    assert select.select([reader], [], [], 0)[0]
    os.close(reader)
