"""The processes of a container: those of its cgroup or, without one, its init's descendants."""

from __future__ import annotations

import posix

from ociruntime.base.process import open_process, process_stat, send_signal, start_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ociruntime.runtime.lifecycle.container import Container


def members(container: Container) -> list[int]:
    """Return the pids (in our pid namespace) in ascending order, including nested cgroups.

    Without a cgroup of its own, these are the init, its descendants and, if the container has its
    own pid namespace, all processes in it.  Raises HostError.
    """
    cgroup = container.cgroup()
    if any(each.is_ours() for each in cgroup.placements):
        return cgroup.processes()
    if not container.alive():
        return []

    return descendants(container.pid, with_namespace=container.facts["ownPidNamespace"])


def signal_members(container: Container, signal: int) -> None:
    """Send a signal to each of :func:`members`.  Raises HostError."""
    signal_listed(lambda: members(container), signal)


def signal_listed(listing: Callable[[], Iterable[int]], signal: int) -> None:
    """Send a signal to each listed process; one that exits meanwhile is skipped.

    Each is pinned by a pidfd before it is looked up again: a pid that has been reused is not
    signalled. Raises HostError.
    """
    held: dict[int, int] = {}
    try:
        for pid in listing():
            if (fd := open_process(pid, start_time(pid))) >= 0:
                held[pid] = fd
        for pid in listing():
            if pid in held:
                send_signal(held[pid], signal, pid)
    finally:
        for fd in held.values():
            posix.close(fd)


def descendants(pid: int, *, with_namespace: bool) -> list[int]:
    """Return ``pid`` and its descendants in ascending order, without zombies.

    ``with_namespace``: include processes in its pid namespace, which `exec` has started, and their
    descendants.
    """
    children: dict[int, list[int]] = {}
    pending = [pid]
    namespace = _namespace(pid) if with_namespace else ""
    for name in posix.listdir("/proc"):
        if name.isdigit():
            ended, parent, _ = process_stat(int(name))
            if not ended:
                children.setdefault(parent, []).append(int(name))
                if namespace and _namespace(int(name)) == namespace:
                    pending.append(int(name))
    found: set[int] = set()
    while pending:
        each = pending.pop()
        if each not in found:
            found.add(each)
            pending += children.get(each, [])
    return sorted(found)


def _namespace(pid: int) -> str:
    try:
        return posix.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""
