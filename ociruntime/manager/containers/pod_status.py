"""The status of a container's pod and app, read without blocking.

It is read from the pod's files and the pod's lock.  It determines the container's status:
created -> running <-> paused, running -> stopped -> running.  A container is ``restarting`` while
it waits for a restart, and ``removing`` during its removal.  ``unknown`` means that the pod cannot
be read, ``corrupt`` that the container's record cannot be read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ociruntime.base.deep_tree import disk_usage
from ociruntime.base.errors import RuntimeFailure
from ociruntime.base.files import read_file
from ociruntime.pods.store import pod as pods
from ociruntime.pods.store import pod_cgroup
from ociruntime.pods.store.manifest_file import read_object
from ociruntime.pods.store.phases import find
from ociruntime.pods.store.pod import EXITED, GONE, Pod

CREATED = "created"
RUNNING = "running"
PAUSED = "paused"
STOPPED = "stopped"
RESTARTING = "restarting"
REMOVING = "removing"
UNKNOWN = "unknown"
CORRUPT = "corrupt"
ACTIVE = (RUNNING, PAUSED)

UNSEEN = "exit status unknown: the pod's monitor was killed, or the host went down"
APP = "app"  # the name of the only app in a container's pod
_RUNS = ("running", "stopping")
_PREPARED = ("prepared", "preparing")
_READABLE = (pods.PREPARED, pods.RUNNING, EXITED, "exited garbage", "exited deleting", GONE)


@dataclass
class LastRun:
    """The container's latest run; times are RFC 3339 strings, None while they are unknown."""

    started_at: str | None = None
    finished_at: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    oom_killed: bool = False
    error: str = ""

    @property
    def uptime(self) -> float:
        """Seconds from start to exit; 0 if a time is unknown or the program did not start."""
        if self.error or not self.started_at or not self.finished_at:
            return 0.0
        finished, started = (datetime.fromisoformat(t) for t in (self.finished_at, self.started_at))
        return (finished - started).total_seconds()

    def outcome(self) -> dict[str, Any]:
        """Return this run's ``{"exit_code", "signal", "oom_killed", "error", "finished_at"}``."""
        members = ("exit_code", "signal", "oom_killed", "error", "finished_at")
        return {member: getattr(self, member) for member in members}


@dataclass
class PodStatus:
    """A snapshot of the status of a container's pod and app.

    ``pod_state`` is the pod's ``Pod.state``.  ``app_state`` is the state in the app's
    ``state.json``, "" if this file is missing.  ``last`` is the app's latest run, None if the app
    was never started in this pod.  ``problem`` is the error that prevented reading the status, ""
    if there was none.
    """

    pod_state: str = GONE
    app_state: str = ""
    last: LastRun | None = None
    pid: int | None = None
    paused: bool = False
    stopped_by: str | None = None
    addresses: dict[str, str] = field(default_factory=dict)
    problem: str = ""

    def of_container(self, ever_started: bool) -> str:
        """Return the container's status, such as ``running``.

        ``ever_started`` comes from the container's record: True if the container was ever started.
        """
        if self.problem or self.pod_state not in _READABLE:
            return UNKNOWN
        at_rest = STOPPED if ever_started else CREATED
        if self.pod_state != pods.RUNNING:
            return at_rest if self.app_state in ("", *_PREPARED) else STOPPED
        if self.app_state in _RUNS:
            return PAUSED if self.paused else RUNNING
        if self.app_state in ("", *_PREPARED):
            return RESTARTING if self.last else at_rest
        if self.is_ending:
            return RUNNING  # the app has exited, but its pod still occupies networks and ports
        return REMOVING if self.app_state == "deleting" else UNKNOWN

    @property
    def is_ending(self) -> bool:
        """True if the app has exited and the pod is about to exit."""
        return self.pod_state == pods.RUNNING and self.app_state == "exited"

    def end_of_run(self, last_start: str | None) -> str:
        """Return a key that identifies the exit of the app's latest run; "" if there is no exit.

        An exit counts only once the pod has exited, too.  ``last_start`` is the start time of the
        latest run in the container's record, or None if the record already contains the run's exit.
        ``last_start`` identifies the run if the pod was removed.
        """
        if self.problem or self.pod_state == pods.RUNNING:
            return ""
        if self.app_state == "exited" and self.last is not None:
            return self.last.finished_at or "unknown"
        if self.app_state in _RUNS and self.last is not None:
            return f"unseen {self.last.started_at}"
        return f"unseen {last_start}" if last_start and self.pod_state == GONE else ""

    @property
    def error(self) -> str:
        """The reason for an abnormal status of the container; "" if the status is normal."""
        if self.problem:
            return self.problem
        if self.pod_state == GONE:
            return "the container's pod was removed, and with it the container's files"
        if self.pod_state != "running" and self.app_state in _RUNS:
            return UNSEEN
        return ""


class PodHandle:
    """A container's pod, with its directory kept open.

    The handle tests the pod's lock through the open descriptor.  Opening and closing the directory
    for each test would trigger our own inotify watch for CLOSE_NOWRITE.
    """

    def __init__(self, directory: str, uuid: str, hierarchies: list[str]) -> None:
        self.directory = directory
        self.uuid = uuid
        self._cgroups = pod_cgroup.directories(hierarchies, f"ocipod-{uuid}")
        self._pod: Pod | None = None

    def pod(self) -> Pod | None:
        """Open and return the pod; None if it does not exist.

        Raises RuntimeFailure if it cannot be opened.
        """
        if self._pod is None and self.uuid:
            self._pod = find(self.directory, self.uuid)
        return self._pod

    def size(self) -> int:
        """Return the disk usage of the pod's files in bytes; 0 if the pod cannot be read."""
        try:
            pod = self.pod()
            return disk_usage(pod.path()) if pod is not None else 0
        except RuntimeFailure:
            return 0

    def written(self) -> int:
        """Return the disk usage of the app's writable layer in bytes; 0 if it cannot be read."""
        try:
            pod = self.pod()
            return disk_usage(f"{pod.path()}/apps/{APP}/upper") if pod is not None else 0
        except RuntimeFailure:
            return 0

    def close(self) -> None:
        if self._pod is not None:
            self._pod.close()
            self._pod = None

    def status(self) -> PodStatus:
        """Return the status of the pod and its app; report errors in ``PodStatus.problem``."""
        try:
            pod = self.pod()
            if pod is None:
                return PodStatus()
            # Before reading the app's state: the monitor writes it before the pod exits.
            state = pod.refresh()
            if state == GONE:
                self.close()
                return PodStatus()
            return self._read(pod, state)
        except (RuntimeFailure, OSError) as error:
            return PodStatus(problem=str(error))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return PodStatus(
                problem=f"read the status of pod {self.uuid}: a file is damaged: {error}"
            )

    def _read(self, pod: Pod, state: str) -> PodStatus:
        app = read_object(pod, f"apps/{APP}/state.json")
        if app is None:
            return PodStatus(state)
        runs = state == "running" and app["state"] in _RUNS
        status = PodStatus(
            state, str(app["state"]), _last_run(app), stopped_by=app.get("stopped_by")
        )
        if runs:
            status.pid = app.get("pid")
            status.paused = self._is_frozen()
        if state == "running":
            status.addresses = _addresses(read_object(pod, "net-info.json"))
        return status

    def _is_frozen(self) -> bool:
        for directory in self._cgroups:
            for name, frozen in (("freezer.state", b"FROZEN"), ("cgroup.events", b"frozen 1")):
                try:
                    if frozen in read_file(f"{directory}/{APP}/{name}").splitlines():
                        return True
                except OSError:
                    continue
        return False


def _last_run(app: dict[str, object]) -> LastRun | None:
    if app.get("started") is None and app["state"] != "exited":
        return None
    last = LastRun(
        started_at=_text(app.get("started")),
        finished_at=_text(app.get("finished")),
        signal=_number(app.get("signal")),
        oom_killed=bool(app.get("oom_killed")),
        error=str(app.get("reason") or ""),
    )
    if app["state"] == "exited":
        last.exit_code = _number(app.get("exit_code"))
    return last


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _addresses(info: dict[str, object] | None) -> dict[str, str]:
    networks = info.get("networks") if info else None
    if not isinstance(networks, list):
        return {}
    return {
        str(network["name"]): str(network.get("ip4") or network.get("ip6"))
        for network in networks
        if network.get("ip4") or network.get("ip6")
    }
