"""`events`: report a container's resource usage at intervals, and each OOM kill."""

from __future__ import annotations

import posix
import time
from collections.abc import Callable
from select import POLLIN, poll
from typing import Any, TypeAlias

from ociruntime.base.errors import ContainerError, NotRunning
from ociruntime.base.process import open_process
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.cgroups.cgroup_directory import Placement
from ociruntime.runtime.cgroups.oom_kills import OomNotice, oom_kills
from ociruntime.runtime.cgroups.statistics import statistics
from ociruntime.runtime.lifecycle.container import Container, load
from ociruntime.runtime.lifecycle.container_id import check_id
from ociruntime.runtime.lifecycle.context import Context

# Callback that takes an event, and returns True to receive further events.
Emit: TypeAlias = Callable[[dict[str, Any]], bool]

LONGEST_WAIT = 3600.0  # seconds; poll(2) takes no more than 24 days
# cgroup v1 notifies before the kernel kills a process and counts it: poll the counter afterwards.
LOOK_SECONDS = 5.0
LOOK_PAUSE = 0.02


def stats(context: Context, container_id: str) -> dict[str, Any]:
    """Return a running container's resource usage, as an event of type ``stats``.

    Raises UsageError for an invalid id, NoSuchContainer, NotRunning, ContainerError and HostError.
    """
    container = _running(context, container_id)
    return _stats(container, _cgroup(container))


def follow(context: Context, container_id: str, interval: float, emit: Emit) -> None:
    """Call ``emit`` with each event until the container exits or ``emit`` returns False.

    There is an event of type ``stats`` every ``interval`` seconds, and one of type ``oom`` after
    each OOM kill.  Raises the errors of :func:`stats`.
    """
    container = _running(context, container_id)
    cgroup = _cgroup(container)
    pidfd = open_process(container.pid, container.started)
    if pidfd < 0:
        raise NotRunning(container_id)
    memory = next((p for p in cgroup.placements if "memory" in p.hierarchy.controllers), None)
    notice = OomNotice(memory.directory, memory.hierarchy.version) if memory else None
    try:
        poller = poll()
        poller.register(pidfd, POLLIN)
        if notice is not None:
            poller.register(notice.fd, notice.events)
        _watch(container, cgroup, memory, notice, poller, pidfd, interval, emit)
    finally:
        posix.close(pidfd)
        if notice is not None:
            notice.close()


def _watch(
    container: Container,
    cgroup: Cgroup,
    memory: Placement | None,
    notice: OomNotice | None,
    poller: poll,
    pidfd: int,
    interval: float,
    emit: Emit,
) -> None:
    oom = {"type": "oom", "id": container.id}
    seen = _kills(memory)
    due = time.monotonic() + interval
    poll_until = 0.0  # monotonic time until which to poll the counter, after a notification
    while True:
        pause = LOOK_PAUSE if time.monotonic() < poll_until else LONGEST_WAIT
        timeout = min(max(due - time.monotonic(), 0), pause)
        ready = {fd for fd, _ in poller.poll(int(timeout * 1000) + 1)}
        if notice is not None and notice.fd in ready:
            poll_until = time.monotonic() + LOOK_SECONDS
            if not notice.acknowledge():
                poller.unregister(notice.fd)
        now = _kills(memory)
        for _ in range(now - seen):
            if not emit(oom):
                return
        seen = max(now, seen)
        if pidfd in ready:
            return
        if time.monotonic() >= due:
            if not emit(_stats(container, cgroup)):
                return
            due += interval


def _kills(memory: Placement | None) -> int:
    """Return the number of OOM kills so far in the cgroup ``memory``, or 0 if it is None."""
    return oom_kills(memory.directory, memory.hierarchy.version) if memory else 0


def _stats(container: Container, cgroup: Cgroup) -> dict[str, Any]:
    return {"type": "stats", "id": container.id, "data": statistics(cgroup)}


def _running(context: Context, container_id: str) -> Container:
    """Return the container with this id, or raise NotRunning if its init has exited."""
    check_id(container_id)
    container = load(context.root, container_id)
    if not container.alive():
        raise NotRunning(container_id)
    return container


def _cgroup(container: Container) -> Cgroup:
    cgroup = container.cgroup()
    if not cgroup.placements:
        raise ContainerError(
            f'read statistics of container "{container.id}": it has no cgroup of its own',
            "it was created with --cgroup-manager disabled, or without a delegated cgroup",
        )
    return cgroup
