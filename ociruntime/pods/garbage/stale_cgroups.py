"""The end of a pod's cgroups, ``/ocipod-UUID`` in every hierarchy, and of all that is in them.

For a pod whose lock is free: what is left in them has outlived the pod's own processes.
"""

from __future__ import annotations

import posix
import time

from ociruntime.base.process import SIGKILL, open_process, send_signal, start_time
from ociruntime.pods.store import pod_cgroup

_PATIENCE = 5.0  # seconds until killed processes are gone
_PAUSE = 0.01


def remove_cgroups(paths: list[str]) -> list[str]:
    """Kills what is in them and removes them; those that could not be removed."""
    deadline = time.monotonic() + _PATIENCE
    left = pod_cgroup.remove(paths)
    while left and time.monotonic() < deadline:
        _kill(paths, left)
        time.sleep(_PAUSE)
        left = pod_cgroup.remove(paths)
    return left


def _kill(paths: list[str], left: list[str]) -> None:
    """Once: what forks faster is met again at the next turn."""
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
            # Who is still in the cgroup after it was opened is who was meant.
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
