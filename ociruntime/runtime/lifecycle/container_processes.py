"""List and signal the processes of a container.

They are the members of its cgroup or, without a cgroup of its own, the descendants of its init.
"""

from __future__ import annotations

import posix
from collections.abc import Callable, Iterable
from errno import EACCES, EPERM

from ociruntime.base.errors import HostError
from ociruntime.base.process import (
    open_process,
    process_stat,
    send_signal,
    signal_pinned,
    start_time,
)
from ociruntime.runtime.lifecycle.container import Container


def members(container: Container) -> list[int]:
    """Return the pids on the host of all processes of a container, in ascending order.

    These are the members of the container's cgroup and of the cgroups below it.  Without a cgroup
    of its own, they are the init and the init's descendants, and also all processes in the
    container's pid namespace if the container has its own.  Raises HostError.
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
    """Send ``signal`` once to each process whose pid ``listing`` returns.

    Calls ``listing`` again after it has opened the processes, to skip pids that were reused between
    the calls (``signal_pinned``).  Raises HostError.
    """
    signal_pinned(
        listing(),
        listing,
        lambda pid: open_process(pid, start_time(pid)),
        lambda pidfd, pid: send_signal(pidfd, signal, pid),
    )


def descendants(pid: int, *, with_namespace: bool) -> list[int]:
    """Return the sorted pids of process ``pid`` and its descendants, without zombies.

    ``with_namespace``: also return the processes in the pid namespace of ``pid``, and their
    descendants, because `exec` starts processes there that do not descend from the init.  Raises
    HostError.
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
                continue  # hidden: another user's process, and /proc is mounted with hidepid
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
    """Return a process's pid namespace, such as ``pid:[4026531836]``, or "" if it is unreadable."""
    try:
        return posix.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""
