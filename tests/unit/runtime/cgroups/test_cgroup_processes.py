"""The cgroups below a container's: it may nest them as deep as it likes."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import HostError
from ociruntime.runtime.cgroups import cgroup_processes
from ociruntime.runtime.cgroups.cgroup_processes import (
    _kill,
    kill_each,
    kill_unified,
    pids,
    tree,
    wait_for,
)
from tests.support.processes import ends_with_few_descriptors

DEPTH = 1500


def test_deeply_nested(tmp_path: Path) -> None:
    place = str(tmp_path / "top")
    os.mkdir(place)
    expected = [place]
    for _ in range(DEPTH):
        place += "/d"
        os.mkdir(place)
        expected.append(place)
    try:
        shown = [path for path in tree(expected[0]) if not path.startswith("/proc/self/fd/")]
        assert shown == [path for path in expected[::-1] if len(path) < 3500]  # children first
    finally:
        for path in reversed(expected):  # pytest cannot remove them
            os.rmdir(path)


def test_gone(tmp_path: Path) -> None:
    assert list(tree(str(tmp_path / "gone"))) == []


def test_longer_paths_than_the_kernel_takes(tmp_path: Path) -> None:
    """Each can be read and removed by what ``tree`` yields, and no descriptor is left."""
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for level in range(60):
        for name in ("a" * 250, "b" * 250):
            os.mkdir(name, dir_fd=here)
            os.close(os.open(f"{name}/cgroup.procs", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        below = os.open(("a" if level % 2 else "b") * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    before = os.listdir("/proc/self/fd")
    count = 0
    for path in tree(str(top)):
        if path != str(top):
            os.unlink(f"{path}/cgroup.procs")
        os.rmdir(path)
        count += 1
    assert count == 121
    assert not top.exists()
    assert os.listdir("/proc/self/fd") == before


def test_more_processes_than_descriptors(tmp_path: Path) -> None:
    """A container must not escape `delete` and `kill --all` by forking often enough."""

    def act(pids: list[int]) -> None:
        (tmp_path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
        kill_each([str(tmp_path)])

    assert ends_with_few_descriptors(act) == [-signal.SIGKILL] * 40


def failing(number: int) -> Callable[..., Any]:
    """Return a function that fails with the errno ``number``."""

    def fail(path: object = None, *_: object) -> None:
        raise OSError(number, os.strerror(number), path)

    return fail


def test_threaded_cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel refuses to list its processes, but lists their threads."""
    answers: dict[str, str | int] = {
        "cgroup.procs": errno.EOPNOTSUPP,
        "cgroup.threads": "7\n0\n8\n9\n10\n",
    }
    processes = {"7": "7", "8": "7", "9": "9"}  # by their threads; thread 10 has exited

    def read(path: str) -> str:
        if path.startswith("/proc/"):
            if (thread := path.split("/")[2]) not in processes:
                raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
            return f"Name:\tx\nTgid:\t{processes[thread]}\nPid:\t{thread}\n"
        answer = answers[os.path.basename(path)]
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        return answer

    monkeypatch.setattr(cgroup_processes, "read", read)
    assert pids(str(tmp_path)) == [7, 9], "0 is a process of another pid namespace"
    answers["cgroup.threads"] = errno.EOPNOTSUPP
    assert pids(str(tmp_path)) == []
    answers["cgroup.procs"] = errno.EACCES
    with pytest.raises(HostError, match=r'/cgroup\.procs": permission denied'):
        pids(str(tmp_path))


def test_unreadable_cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup_processes, "cgroup_tree", failing(errno.EMFILE))
    with pytest.raises(HostError, match=f'list "{tmp_path}": too many open'):
        list(tree(str(tmp_path)))


@pytest.mark.parametrize(
    ("number", "exists", "killed"),
    [
        (errno.ENODEV, True, True),  # removed between open(2) and write(2)
        (errno.ENOENT, False, True),
        (errno.ENOENT, True, False),  # before Linux 5.14
        (errno.EOPNOTSUPP, True, False),  # a threaded cgroup
    ],
)
def test_kill_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, exists: bool, killed: bool
) -> None:
    """Nothing is left to kill if the cgroup is gone; else the caller kills one by one."""
    monkeypatch.setattr(cgroup_processes, "write", failing(number))
    directory = tmp_path if exists else tmp_path / "gone"
    assert kill_unified(str(directory)) is killed


def test_refused_kill_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup_processes, "write", failing(errno.EACCES))
    with pytest.raises(HostError, match=r'/cgroup\.kill": permission denied'):
        kill_unified(str(tmp_path))


def test_refused_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has exited is no failure; one of another user is."""
    monkeypatch.setattr("_signal.pidfd_send_signal", failing(errno.ESRCH))
    _kill(5, 71)
    monkeypatch.setattr("_signal.pidfd_send_signal", failing(errno.EPERM))
    with pytest.raises(HostError, match="kill process 71: operation not permitted"):
        _kill(5, 71)


def test_unending_forks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cgroup in which a new process appears in every round is given up at some time."""
    (tmp_path / "cgroup.procs").write_text("1\n")
    rounds: list[list[int]] = []

    def signal_pinned(new: list[int], *_: object) -> None:
        rounds.append(new)
        (tmp_path / "cgroup.procs").write_text(f"{new[-1]}\n{new[-1] + 1}\n")

    monkeypatch.setattr(cgroup_processes, "signal_pinned", signal_pinned)
    kill_each([str(tmp_path)])
    assert rounds == [[number + 1] for number in range(cgroup_processes._ROUNDS)]


def test_wait() -> None:
    answers = [False, False, True]
    assert wait_for(lambda: answers.pop(0), 5.0) is True
    assert answers == []
    assert wait_for(lambda: False, 0.001) is False
