"""Locks of key files and directories."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError
from ociruntime.pods.store import lock
from ociruntime.pods.store.lock import prepare_lock


def test_shared_ones_go_together(tmp_path: Path) -> None:
    with prepare_lock(str(tmp_path), False), prepare_lock(str(tmp_path), False):
        fd = os.open(tmp_path / "locks" / "prepareLock", os.O_RDONLY)
        assert not lock.try_lock(fd, exclusive=True)
    assert lock.try_lock(fd, exclusive=True)
    os.close(fd)


def test_looking_leaves_no_lock(tmp_path: Path) -> None:
    mine, other = (lock.open_directory(str(tmp_path)) for _ in range(2))
    assert not lock.is_locked(mine)
    assert lock.try_lock(other, exclusive=True)
    assert lock.is_locked(mine)
    waiting = threading.Thread(target=lock.wait_for_release, args=(mine,))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    lock.unlock(other)
    waiting.join(5)
    assert not waiting.is_alive()
    assert lock.try_lock(other, exclusive=True)
    os.close(mine)
    os.close(other)


def test_what_cannot_be_locked(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_PATH)
    for action in (lock.is_locked, lock.unlock, lock.wait_for_release):
        with pytest.raises(HostError) as caught:
            action(fd)
        assert str(caught.value).endswith(f' "{tmp_path}": bad file descriptor')
    os.close(fd)


def test_a_place_without_locks(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HostError, match=f'create the directory "{tmp_path}/file/locks": not'):
        prepare_lock(str(tmp_path / "file"), exclusive=False)
