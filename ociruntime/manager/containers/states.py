"""The status of a container, derived from its pod; pure functions.

created -> running <-> paused, running -> stopped -> running.  ``removing`` and ``restarting`` are
transitions; ``unknown`` means that the pod cannot be read, ``corrupt`` that the record cannot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ociruntime.manager.containers.pod_status import PodStatus

CREATED = "created"
RUNNING = "running"
PAUSED = "paused"
STOPPED = "stopped"
RESTARTING = "restarting"
REMOVING = "removing"
UNKNOWN = "unknown"
CORRUPT = "corrupt"

UNSEEN = "exit status unknown: the pod's monitor was killed, or the host went down"

ACTIVE = (RUNNING, PAUSED)
_POD_RUNS = "running"
_READABLE = ("running", "exited", "exited garbage", "exited deleting", "gone")


def status_of(pod_status: PodStatus, ever_started: bool) -> str:
    """Return the status of a container whose record is readable."""
    if pod_status.problem or pod_status.pod_state not in _READABLE:
        return UNKNOWN
    at_rest = STOPPED if ever_started else CREATED
    if pod_status.pod_state != _POD_RUNS:
        return at_rest if pod_status.app_state in ("", "prepared", "preparing") else STOPPED
    if pod_status.app_state in ("running", "stopping"):
        return PAUSED if pod_status.paused else RUNNING
    if pod_status.app_state == "exited":
        return STOPPED
    if pod_status.app_state == "deleting":
        return REMOVING
    if pod_status.app_state in ("prepared", "preparing"):
        return RESTARTING if pod_status.last else at_rest
    return UNKNOWN


def end_of(pod_status: PodStatus, last_start: str | None) -> str:
    """Return a key that identifies the exit of the latest run; "" if there was none.

    ``last_start``: the start of the latest known run, None if its exit is recorded already.
    """
    if pod_status.problem:
        return ""
    if pod_status.app_state == "exited" and pod_status.last is not None:
        return pod_status.last.finished_at or "unknown"
    if pod_status.pod_state == _POD_RUNS:
        return ""
    if pod_status.app_state in ("running", "stopping") and pod_status.last is not None:
        return f"unseen {pod_status.last.started_at}"
    return f"unseen {last_start}" if last_start and pod_status.pod_state == "gone" else ""


def error_of(pod_status: PodStatus) -> str:
    """Return the error that explains an abnormal status; "" if it is normal."""
    if pod_status.problem:
        return pod_status.problem
    if pod_status.pod_state == "gone":
        return "its pod is gone, and with it the container's files"
    if pod_status.pod_state != _POD_RUNS and pod_status.app_state in ("running", "stopping"):
        return UNSEEN
    return ""
