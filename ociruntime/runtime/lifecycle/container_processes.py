"""The processes of a container: those of its cgroup or, without one, its init's descendants."""

from __future__ import annotations

import posix
from errno import EACCES, EMFILE, ENFILE, EPERM

from ociruntime.base.errors import HostError
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
    """Send a signal once to each process that is listed now, if it has not exited meanwhile.

    Each is pinned by a pidfd before it is looked up again: a pid that has been reused is not
    signalled.  As many at a time as there are free descriptors.  Raises HostError.
    """
    waiting = list(listing())
    while waiting:
        held, waiting = _hold(waiting)
        try:
            for pid in listing():
                if pid in held:
                    send_signal(held[pid], signal, pid)
        finally:
            for fd in held.values():
                posix.close(fd)


def _hold(pids: list[int]) -> tuple[dict[int, int], list[int]]:
    """Return pidfds of the processes, and those left out because descriptors ran out.

    Raises HostError.
    """
    held: dict[int, int] = {}
    for place, pid in enumerate(pids):
        try:
            fd = open_process(pid, start_time(pid))
        except HostError as error:
            enough = len(held) // 2 if error.errno in (EMFILE, ENFILE) else 0
            spare = list(held)[enough:]  # the listing needs a few descriptors as well
            for each in spare:
                posix.close(held.pop(each))
            if not held:
                raise
            return held, pids[place:] + spare
        if fd >= 0:
            held[pid] = fd
    return held, []


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
            try:
                ended, parent, _ = process_stat(int(name))
            except HostError as error:
                if error.errno not in (EPERM, EACCES):
                    raise
                continue  # another user's, and /proc is mounted with hidepid
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
