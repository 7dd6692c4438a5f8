"""Notifications of OOM kills, with ordinary files in place of the kernel's."""

from __future__ import annotations

import errno
import os
import posix
import select
from pathlib import Path

import pytest

from ociruntime.base.errors import HostError
from ociruntime.runtime.cgroups import oom_kills
from ociruntime.runtime.cgroups.oom_kills import OomNotice


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_v1(tmp_path: Path) -> None:
    """The kernel increases the eventfd whose number it has been given."""
    (tmp_path / "memory.oom_control").touch()
    (tmp_path / "cgroup.event_control").touch()
    before = descriptors()
    notice = OomNotice(str(tmp_path), 1)
    registered = (tmp_path / "cgroup.event_control").read_text().split()
    assert registered[0] == str(notice.fd)
    assert notice.events == select.POLLIN
    assert not notice.acknowledge(), "nothing has happened yet"
    posix.eventfd_write(notice.fd, 3)
    assert notice.acknowledge()
    assert select.select([notice.fd], [], [], 0)[0] == []
    notice.close()
    assert descriptors() == before


def test_v2(tmp_path: Path) -> None:
    """Before the next poll(2), the file is read from its beginning again."""
    (tmp_path / "memory.events").write_text("oom_kill 1\n")
    before = descriptors()
    notice = OomNotice(str(tmp_path), 2)
    assert notice.events & select.POLLPRI
    assert os.readlink(f"/proc/self/fd/{notice.fd}") == f"{tmp_path}/memory.events"
    for _ in range(2):
        assert notice.acknowledge()
        assert os.lseek(notice.fd, 0, os.SEEK_CUR) == len("oom_kill 1\n")
    notice.close()
    assert descriptors() == before


def test_removed_cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """read(2) fails with ENODEV once the cgroup of an open file is gone."""
    (tmp_path / "memory.events").touch()
    notice = OomNotice(str(tmp_path), 2)

    def fail(fd: int, length: int) -> bytes:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))

    with monkeypatch.context() as patch:
        patch.setattr(posix, "read", fail)
        assert not notice.acknowledge()
    notice.close()


@pytest.mark.parametrize(("version", "file"), [(1, "memory.oom_control"), (2, "memory.events")])
def test_no_file(tmp_path: Path, version: int, file: str) -> None:
    before = descriptors()
    with pytest.raises(HostError, match=f'open "{tmp_path}/{file}": no such file'):
        OomNotice(str(tmp_path), version)
    assert descriptors() == before


def test_refused_subscription(tmp_path: Path) -> None:
    (tmp_path / "memory.oom_control").touch()
    before = descriptors()
    with pytest.raises(HostError, match=r'/memory\.oom_control": no such file'):
        OomNotice(str(tmp_path), 1)
    assert descriptors() == before


def test_no_descriptor_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.oom_control").touch()
    before = descriptors()

    def fail(*_: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(posix, "eventfd", fail)
    with pytest.raises(HostError, match="too many open files"):
        OomNotice(str(tmp_path), 1)
    assert descriptors() == before


def test_kills_of_a_removed_cgroup(tmp_path: Path) -> None:
    assert oom_kills.oom_kills(f"{tmp_path}/gone", 2) == 0
