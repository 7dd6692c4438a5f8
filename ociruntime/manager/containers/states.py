"""What a container's status is, by its pod; pure.

created -> running <-> paused, running -> stopped -> running.  ``removing`` and ``restarting`` are
on the way to another; ``unknown``: its pod cannot be read; ``corrupt``: its record cannot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ociruntime.manager.containers.pod_status import Look

CREATED = "created"
RUNNING = "running"
PAUSED = "paused"
STOPPED = "stopped"
RESTARTING = "restarting"
REMOVING = "removing"
UNKNOWN = "unknown"
CORRUPT = "corrupt"

UNSEEN = "the end was not seen: the pod's monitor was killed, or the machine"

ACTIVE = (RUNNING, PAUSED)
_POD_RUNS = "running"
_READABLE = ("running", "exited", "exited garbage", "exited deleting", "gone")


def status_of(look: Look, ever_started: bool) -> str:
    """The status of a container with a readable record."""
    if look.problem or look.pod_state not in _READABLE:
        return UNKNOWN
    at_rest = STOPPED if ever_started else CREATED
    if look.pod_state != _POD_RUNS:
        return at_rest if look.app_state in ("", "prepared", "preparing") else STOPPED
    if look.app_state in ("running", "stopping"):
        return PAUSED if look.paused else RUNNING
    if look.app_state == "exited":
        return STOPPED
    if look.app_state == "deleting":
        return REMOVING
    if look.app_state in ("prepared", "preparing"):
        return RESTARTING if look.last else at_rest
    return UNKNOWN


def end_of(look: Look, last_start: str | None) -> str:
    """What tells this end of a run from others; "" while it runs, or has never run.

    ``last_start``: when it was started the last time as far as is known, None also if that run has
    ended already.
    """
    if look.problem:
        return ""
    if look.app_state == "exited" and look.last is not None:
        return look.last.finished_at or "unknown"
    if look.pod_state == _POD_RUNS:
        return ""
    if look.app_state in ("running", "stopping") and look.last is not None:
        return f"unseen {look.last.started_at}"
    return f"unseen {last_start}" if last_start and look.pod_state == "gone" else ""


def error_of(look: Look) -> str:
    """What is to be said about such a status; mostly nothing."""
    if look.problem:
        return look.problem
    if look.pod_state == "gone":
        return "its pod is gone, with the files that it has changed"
    if look.pod_state != _POD_RUNS and look.app_state in ("running", "stopping"):
        return UNSEEN
    return ""
