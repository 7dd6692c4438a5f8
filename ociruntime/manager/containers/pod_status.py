"""The status of a container's pod, read from its files and its lock without blocking."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ociruntime.base.errors import RuntimeFailure
from ociruntime.base.files import read_file
from ociruntime.manager.containers.record import Last
from ociruntime.pods.store import pod_cgroup
from ociruntime.pods.store.manifest_file import read_object
from ociruntime.pods.store.phases import find
from ociruntime.pods.store.pod import GONE

if TYPE_CHECKING:
    from ociruntime.pods.store.pod import Pod

APP = "app"  # the only one in a container's pod
_RUNS = ("running", "stopping")


@dataclass
class PodStatus:
    """A snapshot of the status of a container's pod and app.

    ``pod_state`` is that of ``Pod.state``; ``app_state`` that of the app's ``state.json``, "" if
    there is none.  ``last`` is None if the app was never started in this pod.  ``problem`` is why
    the status could not be read, "" if it could.
    """

    pod_state: str = GONE
    app_state: str = ""
    last: Last | None = None
    pid: int | None = None
    paused: bool = False
    stopped_by: str | None = None
    addresses: dict[str, str] = field(default_factory=dict)
    problem: str = ""


NO_POD = PodStatus()


class PodHandle:
    """A handle on a container's pod, which keeps its directory open.

    Testing the pod's lock through the open descriptor opens and closes nothing; a close would wake
    our own inotify watch for CLOSE_NOWRITE.
    """

    def __init__(self, directory: str, uuid: str, hierarchies: list[str]) -> None:
        self.directory = directory
        self.uuid = uuid
        self._cgroups = pod_cgroup.directories(hierarchies, f"ocipod-{uuid}")
        self._pod: Pod | None = None

    def pod(self) -> Pod | None:
        """Return the open pod; None if it does not exist (any more).  Raises RuntimeFailure."""
        if self._pod is None and self.uuid:
            self._pod = find(self.directory, self.uuid)
        return self._pod

    def close(self) -> None:
        if self._pod is not None:
            self._pod.close()
            self._pod = None

    def pod_status(self) -> PodStatus:
        """Return the status of the pod; errors are reported as ``problem``, never raised."""
        try:
            pod = self.pod()
            if pod is None:
                return PodStatus()
            # Before the app's state is read: the monitor writes that before the pod exits.
            state = pod.refresh()
            if state == GONE:
                self.close()
                return PodStatus()
            return self._read(pod, state)
        except (RuntimeFailure, OSError) as error:
            return PodStatus(problem=str(error))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return PodStatus(problem=f"a file of pod {self.uuid} is damaged: {error}")

    def _read(self, pod: Pod, state: str) -> PodStatus:
        app = read_object(pod, f"apps/{APP}/state.json")
        if app is None:
            return PodStatus(state)
        runs = state == "running" and app["state"] in _RUNS
        status = PodStatus(
            state, str(app["state"]), _last_of(app), stopped_by=app.get("stopped_by")
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


def _last_of(app: dict[str, object]) -> Last | None:
    if app.get("started") is None and app["state"] != "exited":
        return None
    last = Last(
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
        str(one["name"]): str(one.get("ip4") or one.get("ip6"))
        for one in networks
        if one.get("ip4") or one.get("ip6")
    }
