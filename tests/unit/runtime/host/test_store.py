"""State directories: leftovers of a killed command, and processes that still hold the lock."""

from __future__ import annotations

import os
import posix
import subprocess
from pathlib import Path

import pytest

from ociruntime.base.errors import ContainerError, ContainerExists
from ociruntime.runtime.host.state_directory import Lock, begin_creation, clear_stale


def held(path: Path, seconds: str) -> subprocess.Popen[bytes]:
    """A process that shares our lock of ``path`` for a while, as a clone before its exec."""
    lock = Lock.acquire(str(path))
    assert lock is not None
    child = subprocess.Popen(["sleep", seconds], pass_fds=(lock.fd,))
    lock.release()
    return child


def test_a_dying_command_is_waited_for(tmp_path: Path) -> None:
    """Its clone has the lock until it executes the executor."""
    left = tmp_path / ".creating-one"
    left.mkdir()
    cleared: list[str] = []
    with held(left, "0.05"):
        clear_stale(str(left), "one", cleared.append)
    assert cleared == [str(left)]
    assert os.listdir(tmp_path) == []


def test_a_container_appears_before_the_directory_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another command's last rename comes between the check for the id and the mkdir."""
    make = posix.mkdir

    def late_mkdir(path: str, mode: int) -> None:
        make(tmp_path / "one")
        make(path, mode)

    monkeypatch.setattr(posix, "mkdir", late_mkdir)
    with pytest.raises(ContainerExists):
        begin_creation(str(tmp_path), "one", pytest.fail)
    assert os.listdir(tmp_path) == ["one"]


def test_a_living_one_is_not(tmp_path: Path) -> None:
    left = tmp_path / ".creating-one"
    left.mkdir()
    with held(left, "100") as child:
        with pytest.raises(ContainerError, match="being created"):
            clear_stale(str(left), "one", pytest.fail)
        child.kill()
    assert left.exists()
