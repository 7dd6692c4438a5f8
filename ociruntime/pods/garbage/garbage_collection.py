"""Garbage collection of pods: mark exited pods by a rename, and remove them after a grace period.

The grace period begins when a pod is marked.  The rename sets the ctime of the pod's directory, and
nothing changes it afterwards, so the ctime is the time of the mark.  Several processes may collect
garbage at the same time: each skips the pods that another process has locked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

from ociruntime.base.deep_tree import disk_usage
from ociruntime.base.errors import PodError, RuntimeFailure
from ociruntime.base.fault_injection import fault
from ociruntime.pods.garbage import clean_up
from ociruntime.pods.store import phases
from ociruntime.pods.store.manifest_file import RUNTIME_CONFIG, read_object
from ociruntime.pods.store.pod import (
    EMBRYO,
    EXITED_GARBAGE,
    GARBAGE,
    GONE,
    MARKED,
    PREPARE,
    PREPARED,
    RUN,
    STATES,
    Pod,
)

Event = tuple[str, str, str]  # kind, UUID, message


GRACE = 30 * 60.0  # seconds between mark and sweep of an exited pod
EXPIRY = 24 * 3600.0  # seconds until a prepared pod that was not run is removed

MOVED = "moved"  # kinds of events; moved: the pod was marked as garbage
COLLECTING = "collecting"
FREED = "freed"  # removed; the message is the number of bytes on disk that it had
KEPT = "kept"
PROBLEM = "problem"

_DELETING = tuple(STATES[phase][0] for phase in MARKED)


def collect(
    directory: str, grace: float, expiry: float, *, mark_only: bool = False
) -> Iterator[Event]:
    """Mark exited and expired pods in the data ``directory`` as garbage, and remove old garbage.

    Yields an event (kind, UUID, message) for each pod that it marks, keeps or removes, and for each
    error about a pod.  An exited pod is kept for ``grace`` seconds after it was marked.  A prepared
    pod expires after ``expiry`` seconds.  With ``mark_only``, prepared pods do not expire, and no
    garbage is removed.  Raises HostError if the pods cannot be listed.
    """
    yield from _mark(directory, RUN, _mark_exited)
    yield from _mark(directory, PREPARE, phases.mark_aborted)
    yield from _mark(directory, EMBRYO, lambda pod: _discard(pod, grace, ""))
    if mark_only:
        return
    yield from _mark(directory, PREPARED, lambda pod: _expire(pod, expiry))
    for phase in MARKED:
        for uuid in phases.names(directory, (phase,), []):
            yield from _sweep(directory, phase, uuid, grace if phase == EXITED_GARBAGE else 0)


def _mark_exited(pod: Pod) -> bool:
    return not _is_kept(pod) and phases.mark_exited(pod)


def _expire(pod: Pod, expiry: float) -> bool:
    return not _is_kept(pod) and _discard(pod, expiry, "gc.expire.after-lock")


def _is_kept(pod: Pod) -> bool:
    """Return whether the pod was created with ``--keep``, so that ``gc`` must not remove it."""
    try:
        return (read_object(pod, RUNTIME_CONFIG) or {}).get("keep") is True
    except PodError:
        return False  # a pod with a damaged file is of no use to the manager


def discard(pod: Pod) -> Iterator[Event]:
    """Remove a pod that is not running, without a grace period.

    Yields an event (kind, UUID, message) when the pod is marked as garbage, when its removal
    begins, and for each problem.  Raises PodError if the pod is running, or if another process has
    locked it.  Raises PodError or HostError if the removal fails.
    """
    marks: dict[str, Callable[[Pod], bool]] = {
        STATES[RUN][1]: phases.mark_exited,
        STATES[PREPARE][1]: phases.mark_aborted,
        STATES[PREPARED][1]: _discard_prepared,
    }
    marked = pod.state in marks and marks[pod.state](pod)
    if marked:
        yield MOVED, pod.uuid, ""
    elif pod.state in marks:
        pod.refresh()
    if pod.phase not in MARKED or pod.state == GONE:
        raise PodError(f'remove pod {pod.uuid}: its state is "{pod.state}"', _hint(pod.state))
    if pod.state in _DELETING or not phases.lock_within(pod, pod.phase):
        # Another process, such as gc, may remove the pod as soon as it is marked.
        if pod.refresh() == GONE or (marked and pod.state in _DELETING):
            return
        busy = "being deleted" if pod.state in _DELETING else "locked"
        raise PodError(f"remove pod {pod.uuid}: it is {busy} by another process", "try again")
    yield COLLECTING, pod.uuid, ""
    for problem in _remove(pod):
        yield PROBLEM, pod.uuid, problem


def _hint(state: str) -> str:
    locked = "it is locked by another process; try again"
    return {"running": "stop it first", "prepared": locked, "exited": locked}.get(state, "")


def _mark(directory: str, phase: str, mark: Callable[[Pod], bool]) -> Iterator[Event]:
    for uuid in phases.names(directory, (phase,), []):
        try:
            pod = phases.open_in(directory, phase, uuid)
            if pod is None:
                continue
            with pod:
                moved = mark(pod)
        except RuntimeFailure as failure:
            yield PROBLEM, uuid, str(failure)
            continue
        if moved:
            yield MOVED, uuid, ""


def _discard(pod: Pod, period: float, point: str, timeout: float = 0) -> bool:
    """Move a pod that never ran to garbage if it has been in its phase for ``period`` seconds.

    Returns whether the pod was moved.  The pod is not moved if another process holds the pod's lock
    for more than ``timeout`` seconds, because that process may be creating or starting the pod.
    ``point`` is the name of a fault that tests inject here, or "".
    """
    if _remaining(pod, period) > 0 or not phases.lock_within(pod, pod.phase, timeout):
        return False
    try:
        if point:
            fault(point)
        return _remaining(pod, period) <= 0 and pod.move(GARBAGE)
    finally:
        pod.release()


def _discard_prepared(pod: Pod) -> bool:
    return _discard(pod, 0, "", phases.TIMEOUT)


def _remaining(pod: Pod, period: float) -> float:
    """Return the seconds that remain until the pod has been in its phase for ``period`` seconds.

    The result is 0 or negative if that time has passed.
    """
    if period <= 0:
        return 0
    return os.fstat(pod.fd).st_ctime + period - time.time()


def _sweep(directory: str, phase: str, uuid: str, grace: float) -> Iterator[Event]:
    try:
        pod = phases.open_in(directory, phase, uuid)
        if pod is None:
            return
        with pod:
            remaining = _remaining(pod, grace)
            if remaining > 0:
                yield KEPT, uuid, f"still within grace period ({remaining:.0f} s left)"
            elif phases.lock_within(pod, phase, 0):
                yield COLLECTING, uuid, ""
                size = disk_usage(pod.path())
                for problem in _remove(pod):
                    yield PROBLEM, uuid, problem
                yield FREED, uuid, str(size)
    except RuntimeFailure as failure:
        yield PROBLEM, uuid, str(failure)


def _remove(pod: Pod) -> list[str]:
    """Remove the pod; return messages about problems that did not prevent the removal.

    If this raises PodError or HostError, the pod still exists, and the call can be repeated.
    """
    fault("gc.sweep.after-lock")
    problems = clean_up.clean_up(pod)
    clean_up.remove(pod)
    return problems
