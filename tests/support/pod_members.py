"""The processes of a running pod, according to the kernel."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tests.support import cgroupfs

PF_EXITING = 0x4


def children(pid: int) -> list[int]:
    """Return the children of the process's main thread; [] if it has exited."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def pid_namespace(pid: int) -> str:
    """Return the identity of a process's pid namespace; "" if it has exited."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def living(uuid: str, namespace: str) -> list[int]:
    """Return the running processes of the pod, by its cgroups and its pid namespace."""
    found: set[int] = set()
    for top in cgroupfs.hierarchies().values():
        for place in (top / f"ocipod-{uuid}").rglob("cgroup.procs"):
            try:
                found.update(int(word) for word in place.read_text().split())
            except OSError:
                continue
    for name in os.listdir("/proc"):
        if name.isdigit() and namespace and pid_namespace(int(name)) == namespace:
            found.add(int(name))
    return sorted(pid for pid in found if is_alive(pid))


def is_alive(pid: int) -> bool:
    """Return whether the process can still run; one that the kernel is ending cannot."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    fields = stat.rpartition(")")[2].split()
    return fields[0] not in "ZX" and not int(fields[6]) & PF_EXITING


def is_free(path: Path, kind: int = fcntl.LOCK_SH) -> bool:
    """Return whether a lock of that kind on the pod could be acquired now."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True
