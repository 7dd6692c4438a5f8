"""A look at the pod of a container: by its files and its lock, without waiting for anybody."""

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
class Look:
    """``pod_state`` as ``Pod.state``, ``app_state`` as the app's record has it, "" without one.

    ``last`` is None while the app has not been started in this pod; ``problem`` is what kept us
    from looking.
    """

    pod_state: str = GONE
    app_state: str = ""
    last: Last | None = None
    pid: int | None = None
    paused: bool = False
    stopped_by: str | None = None
    addresses: dict[str, str] = field(default_factory=dict)
    problem: str = ""


NOWHERE = Look()


class Place:
    """The pod, kept open: looking at its lock opens nothing, so that watching it sees nothing."""

    def __init__(self, directory: str, uuid: str, hierarchies: list[str]) -> None:
        self.directory = directory
        self.uuid = uuid
        self._cgroups = pod_cgroup.directories(hierarchies, f"ocipod-{uuid}")
        self._pod: Pod | None = None

    def pod(self) -> Pod | None:
        """None if there is none (any more).  Raises RuntimeFailure."""
        if self._pod is None and self.uuid:
            self._pod = find(self.directory, self.uuid)
        return self._pod

    def close(self) -> None:
        if self._pod is not None:
            self._pod.close()
            self._pod = None

    def look(self) -> Look:
        """What there is to be seen; raises nothing that a pod could be the reason of."""
        try:
            pod = self.pod()
            if pod is None:
                return Look()
            # First: how its app ended is written before a pod has exited.
            state = pod.refresh()
            if state == GONE:
                self.close()
                return Look()
            return self._look(pod, state)
        except (RuntimeFailure, OSError) as error:
            return Look(problem=str(error))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return Look(problem=f"a file of pod {self.uuid} is damaged: {error}")

    def _look(self, pod: Pod, state: str) -> Look:
        app = read_object(pod, f"apps/{APP}/state.json")
        if app is None:
            return Look(state)
        runs = state == "running" and app["state"] in _RUNS
        look = Look(state, str(app["state"]), _last_of(app), stopped_by=app.get("stopped_by"))
        if runs:
            look.pid = app.get("pid")
            look.paused = self._is_frozen()
        if state == "running":
            look.addresses = _addresses(read_object(pod, "net-info.json"))
        return look

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
