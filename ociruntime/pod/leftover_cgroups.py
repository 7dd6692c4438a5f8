"""The end of a pod's cgroups, ``/ocipod-UUID`` in every hierarchy, and of all that is in them.

For a pod whose lock is free: what is left in them has outlived the pod's own processes.
"""

from __future__ import annotations

import posix
import time

from ociruntime.host.files import read_file
from ociruntime.host.process import SIGKILL, open_process, send_signal, start_time

_PATIENCE = 5.0  # seconds until killed processes are gone
_PAUSE = 0.01


def cgroup_paths(uuid: str, mountinfo: str) -> list[str]:
    """Where the pod's cgroups may be, by the text of a mountinfo (proc_pid_mountinfo(5))."""
    found = []
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        if right.split(" ")[0] in ("cgroup", "cgroup2"):
            found.append(f"{left.split(' ')[4]}/ocipod-{uuid}")
    return found


def remove_cgroups(paths: list[str]) -> list[str]:
    """Kills what is in them and removes them; those that could not be removed."""
    deadline = time.monotonic() + _PATIENCE
    left = [path for path in paths if not _removed(path)]
    while left and time.monotonic() < deadline:
        for path in left:
            _kill(path)
        time.sleep(_PAUSE)
        left = [path for path in left if not _removed(path)]
    return left


def _removed(path: str) -> bool:
    for below in reversed(_with_descendants(path)):
        try:
            posix.rmdir(below)
        except FileNotFoundError:
            pass
        except OSError:
            return False
    return True


def _with_descendants(path: str) -> list[str]:
    """The cgroup and those below it, parents first; none if it is not there."""
    found, at = [path], 0
    while at < len(found):
        try:
            with posix.scandir(found[at]) as entries:
                found += [one.path for one in entries if one.is_dir(follow_symlinks=False)]
        except OSError:
            found.pop(at)
        else:
            at += 1
    return found


def _kill(path: str) -> None:
    """Once: what forks faster is met again at the next turn."""
    _write(f"{path}/cgroup.kill", b"1")
    for place in _with_descendants(path):
        _write(f"{place}/freezer.state", b"THAWED")
        for pid in _members(place):
            # Who is still in the cgroup after it was opened is who was meant.
            started = start_time(pid)
            fd = open_process(pid, started)
            if fd < 0:
                continue
            try:
                if pid in _members(place):
                    send_signal(fd, SIGKILL, pid)
            finally:
                posix.close(fd)


def _members(place: str) -> list[int]:
    try:
        return [int(pid) for pid in read_file(f"{place}/cgroup.procs").split() if pid != b"0"]
    except OSError:
        return []


def _write(path: str, data: bytes) -> None:
    try:
        fd = posix.open(path, posix.O_WRONLY | posix.O_CLOEXEC)
    except OSError:
        return
    try:
        posix.write(fd, data)
    except OSError:
        pass
    finally:
        posix.close(fd)
