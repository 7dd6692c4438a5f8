"""Locks of files, and waiting for one with a limit."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from ociruntime.base import locks
from ociruntime.base.errors import HostError
from ociruntime.base.locks import FileLock, lock_within
from tests.support.descriptors import open_descriptors


def test_a_key_file_that_is_unlinked_while_somebody_waits(tmp_path: Path) -> None:
    entered = threading.Event()

    def wait() -> None:
        with FileLock(str(tmp_path / "key"), exclusive=True):
            entered.set()

    with FileLock(str(tmp_path / "key"), exclusive=True):
        thread = threading.Thread(target=wait)
        thread.start()
        assert not entered.wait(0.1)
        (tmp_path / "key").unlink()
    thread.join(5)
    assert entered.is_set()
    assert (tmp_path / "key").exists(), "it holds the lock of a file that others find"


def test_it_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_is_at", lambda fd, path: False)
    descriptors = open_descriptors()
    with pytest.raises(HostError, match="replaced repeatedly"):
        FileLock(str(tmp_path / "key"), exclusive=True).__enter__()
    assert open_descriptors() == descriptors


def test_not_waiting(tmp_path: Path) -> None:
    path = str(tmp_path / "key")
    with FileLock(path, exclusive=False) as first, FileLock(path, exclusive=False) as second:
        assert first
        assert second
        with FileLock(path, exclusive=True, wait=False) as third:
            assert not third


def test_a_limit(tmp_path: Path) -> None:
    mine, other = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    fcntl.flock(other, fcntl.LOCK_EX)
    assert not lock_within(mine, 0)
    timer = threading.Timer(0.05, lambda: fcntl.flock(other, fcntl.LOCK_UN))
    timer.start()
    assert lock_within(mine, 20)
    timer.join()
    os.close(mine)
    os.close(other)


def test_forgotten_lock(tmp_path: Path) -> None:
    """Another process may have removed the file already."""
    path = tmp_path / "key"
    path.touch()
    for _ in range(2):
        locks.forget_lock(str(path))
        assert not path.exists()
