"""The processes of a container: those of its cgroup or, without one, its init's descendants."""

from __future__ import annotations

import posix
from collections.abc import Callable, Iterable
from errno import EACCES, EMFILE, ENFILE, EPERM

from ociruntime.base.errors import HostError
from ociruntime.base.process import open_process, process_stat, send_signal, start_time
from ociruntime.runtime.lifecycle.container import Container


def members(container: Container) -> list[int]:
    """Return the pids of all processes of a container, in ascending order, as the host sees them.

    These are the members of its cgroup and of the cgroups below. For a container without a cgroup
    of its own: its init, the init's descendants and, if the container has its own pid namespace,
    all processes in that.  Raises HostError.
    """
    cgroup = container.cgroup()
    if any(each.is_ours() for each in cgroup.placements):
        return cgroup.processes()
    if not container.alive():
        return []

    return descendants(container.pid, with_namespace=container.facts["ownPidNamespace"])


def signal_members(container: Container, signal: int) -> None:
    """Send ``signal`` to each process of the container.  Raises HostError."""
    signal_listed(lambda: members(container), signal)


def signal_listed(listing: Callable[[], Iterable[int]], signal: int) -> None:
    """Send ``signal`` once to each process whose pid ``listing()`` returns.

    Each process is pinned by a pidfd and listed again before it is signalled, so a pid that was
    reused meanwhile gets no signal.  The processes are handled in batches, as large as the limit
    on open files permits.  Raises HostError.
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
    """Open a pidfd of each process; return ({pid: pidfd}, pids left when descriptors ran out).

    Raises HostError.
    """
    held: dict[int, int] = {}
    for index, pid in enumerate(pids):
        try:
            fd = open_process(pid, start_time(pid))
        except HostError as error:
            held_count = len(held) // 2 if error.errno in (EMFILE, ENFILE) else 0
            spare = list(held)[held_count:]  # the listing needs a few descriptors as well
            for each in spare:
                posix.close(held.pop(each))
            if not held:
                raise
            return held, pids[index:] + spare
        if fd >= 0:
            held[pid] = fd
    return held, []


def descendants(pid: int, *, with_namespace: bool) -> list[int]:
    """Return the pids of process ``pid`` and its descendants in ascending order, without zombies.

    With ``with_namespace``, all processes in the pid namespace of ``pid`` and their descendants are
    included: `exec` starts processes there that do not descend from the init.
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
                continue  # another user's process, and /proc is mounted with hidepid
            if not ended:
                children.setdefault(parent, []).append(int(name))
                if namespace and _namespace(int(name)) == namespace:
                    pending.append(int(name))
    family: set[int] = set()
    while pending:
        each = pending.pop()
        if each not in family:
            family.add(each)
            pending += children.get(each, [])
    return sorted(family)


def _namespace(pid: int) -> str:
    """Return the name of a process's pid namespace, as ``pid:[4026531836]``; "" if unreadable."""
    try:
        return posix.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""
