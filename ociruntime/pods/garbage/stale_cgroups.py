"""Remove a dead pod's cgroups, ``/ocipod-UUID`` in every hierarchy, with all processes in them.

Call it only while the pod's lock is ours: the processes are then orphans of the pod.
"""

from __future__ import annotations

import posix
import time

from ociruntime.base.process import SIGKILL, open_process, send_signal, start_time
from ociruntime.pods.store import pod_cgroup

_TIMEOUT = 5.0  # seconds for killed processes to disappear
_PAUSE = 0.01


def remove_cgroups(paths: list[str]) -> list[str]:
    """Kill the processes and remove the cgroups; return those that could not be removed."""
    deadline = time.monotonic() + _TIMEOUT
    left = pod_cgroup.remove(paths)
    while left and time.monotonic() < deadline:
        _kill(paths, left)
        time.sleep(_PAUSE)
        left = pod_cgroup.remove(paths)
    return left


def _kill(paths: list[str], left: list[str]) -> None:
    """Kill all processes once; the caller repeats it to catch those that were forked meanwhile."""
    for path in paths:
        _write(f"{path}/cgroup.kill", b"1")
    for path in left:
        _write(f"{path}/freezer.state", b"THAWED")
    for pid in pod_cgroup.processes(left):
        started = start_time(pid)
        fd = open_process(pid, started)
        if fd < 0:
            continue
        try:
            # Check again now that the pidfd is open: the pid could have been reused before.
            if pid in pod_cgroup.processes(left):
                send_signal(fd, SIGKILL, pid)
        finally:
            posix.close(fd)


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
