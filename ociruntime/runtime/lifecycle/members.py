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
    """Send a signal to each listed process; one that exits meanwhile is skipped.

    Each is pinned by a pidfd before it is looked up again: a pid that has been reused is not
    signalled.  As many at a time as there are free descriptors.  Raises HostError.
    """
    done: set[int] = set()
    while held := _hold(pid for pid in listing() if pid not in done):
        try:
            for pid in listing():
                if pid in held:
                    send_signal(held[pid], signal, pid)
        finally:
            for fd in held.values():
                posix.close(fd)
        done.update(held)


def _hold(pids: Iterable[int]) -> dict[int, int]:
    """Return pidfds of the processes, or of some if descriptors run out.  Raises HostError."""
    held: dict[int, int] = {}
    try:
        for pid in pids:
            if (fd := open_process(pid, start_time(pid))) >= 0:
                held[pid] = fd
    except HostError as error:
        if error.errno not in (EMFILE, ENFILE) or len(held) < 2:
            for fd in held.values():
                posix.close(fd)
            raise
        # The listing needs a few as well.
        for pid in list(held)[-len(held) // 2 :]:
            posix.close(held.pop(pid))
    return held


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
