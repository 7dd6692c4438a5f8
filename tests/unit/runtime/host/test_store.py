"""State directories: leftovers of a killed command, and processes that still hold the lock."""

from __future__ import annotations

import errno
import os
import posix
import subprocess
from pathlib import Path

import pytest

from ociruntime.base.errors import ContainerError, ContainerExists, HostError
from ociruntime.runtime.host import state_directory
from ociruntime.runtime.host.state_directory import (
    Lock,
    begin_creation,
    clear_stale,
    commit_creation,
    container_ids,
    remove_directory,
)


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


def refuse(monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(posix, call, fail)


def test_unreadable_state_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "listdir", errno.EIO)
    with pytest.raises(HostError, match=f'state root "{tmp_path}": input/output'):
        container_ids(str(tmp_path))


def test_containers(tmp_path: Path) -> None:
    for name in ("b", "a", ".creating-c", ".deleting-d"):
        (tmp_path / name).mkdir()
    assert container_ids(str(tmp_path)) == ["a", "b"]


def test_lock_of_a_removed_directory(tmp_path: Path) -> None:
    assert Lock.acquire(f"{tmp_path}/gone") is None


def test_lock_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    with pytest.raises(HostError, match=f'"{tmp_path}/one": not a directory'):
        Lock.acquire(f"{tmp_path}/one")


def test_lock_of_a_replaced_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it waited for the lock, the container was deleted, and perhaps created again."""
    (tmp_path / "one").mkdir()
    before = os.listdir("/proc/self/fd")

    def replace(fd: int, seconds: float) -> bool:
        (tmp_path / "one").rename(tmp_path / "old")
        if seconds:
            (tmp_path / "one").mkdir()
        return True

    monkeypatch.setattr(state_directory, "lock_within", replace)
    assert Lock.acquire(f"{tmp_path}/one", 0) is None
    (tmp_path / "old").rename(tmp_path / "one")
    assert Lock.acquire(f"{tmp_path}/one", 1) is None
    assert os.listdir("/proc/self/fd") == before


def test_refused_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new directory that cannot be locked is removed again."""

    def fail(fd: int, seconds: float) -> bool:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(state_directory, "lock_within", fail)
    with pytest.raises(HostError, match=f'lock "{tmp_path}/.creating-one": no locks'):
        begin_creation(str(tmp_path), "one", pytest.fail)
    assert os.listdir(tmp_path) == []
    assert os.listdir("/proc/self/fd") == before


def test_refused_state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "mkdir", errno.ENOSPC)
    with pytest.raises(HostError, match=f'"{tmp_path}/.creating-one": no space'):
        begin_creation(str(tmp_path), "one", pytest.fail)


def test_stale_directory_that_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another command cleans it up between the mkdir and the look at it."""
    (tmp_path / ".creating-one").mkdir()

    def check(path: str, kind: str) -> bool:
        os.rmdir(path)
        return False

    monkeypatch.setattr(state_directory, "check_entry", check)
    path, lock = begin_creation(str(tmp_path), "one", pytest.fail)
    assert path == f"{tmp_path}/.creating-one"
    lock.release()
    lock.release()


def test_new_directory_that_another_command_takes_for_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is removed before it is locked, and made again."""
    acquire = Lock.acquire
    taken: list[str] = []

    def late(path: str, seconds: float) -> Lock | None:
        if not taken:
            taken.append(path)
            os.rmdir(path)
        return acquire(path, seconds)

    monkeypatch.setattr(Lock, "acquire", late)
    path, lock = begin_creation(str(tmp_path), "one", pytest.fail)
    assert taken == [path]
    assert os.path.isdir(path)
    lock.release()


@pytest.mark.parametrize(
    ("number", "error"),
    [(errno.ENOTEMPTY, ContainerExists), (errno.EEXIST, ContainerExists), (errno.EIO, HostError)],
)
def test_refused_publication(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception]
) -> None:
    """Another `create` of the same id may have published its container first."""
    refuse(monkeypatch, "rename", number)
    with pytest.raises(error, match="one"):
        commit_creation(f"{tmp_path}/.creating-one", str(tmp_path), "one")


def test_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing directory is removed already; the error of another one names it."""
    remove_directory(f"{tmp_path}/one")
    (tmp_path / "one").mkdir()
    refuse(monkeypatch, "rename", errno.EACCES)
    with pytest.raises(HostError, match=f'"{tmp_path}/one": permission denied'):
        remove_directory(f"{tmp_path}/one")
    assert (tmp_path / "one").is_dir()
