"""What is known of a pod's apps, also when their monitor is gone."""

from __future__ import annotations

from ociruntime.base.errors import PodError
from ociruntime.pods.store.manifest_file import read_manifest, read_object
from ociruntime.pods.store.pod import EMBRYO, PREPARE, PREPARED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ociruntime.pods.store.pod import Pod

STATES = ("unknown", "preparing", "prepared", "running", "stopping", "exited", "deleting")
_BEFORE = {EMBRYO: "preparing", PREPARE: "preparing", PREPARED: "prepared"}


def app_names(pod: Pod) -> list[str]:
    """In the manifest's order.  Raises PodError, HostError."""
    return [str(entry["name"]) for entry in read_manifest(pod).get("apps") or ()]


def choose_app(pod: Pod, wanted: str) -> str:
    """The app called ``wanted``, or without a name the only one.  Raises PodError."""
    names = app_names(pod)
    if wanted:
        if wanted not in names:
            known = ", ".join(names) or "it has none"
            raise PodError(f'pod {pod.uuid} has no app "{wanted}"', known)
        return wanted
    if len(names) != 1:
        hint = f"--app names one of: {', '.join(names)}" if names else ""
        raise PodError(f"pod {pod.uuid} has {len(names) or 'no'} apps", hint)
    return names[0]


def app_record(pod: Pod, name: str) -> dict[str, Any]:
    """``state.json`` of an app with the state that it has now; ``pod`` was just looked at.

    Of a pod that was killed no code is known, but that its apps have ended.  Raises PodError.
    """
    record = read_object(pod, f"apps/{name}/state.json") or {}
    record["state"] = state_of(record.get("state"), pod.state, pod.phase)
    return record


def state_of(recorded: object, pod_state: str, phase: str) -> str:
    """One of ``STATES``."""
    if phase in _BEFORE:
        return _BEFORE[phase]
    if pod_state != "running":
        return "exited"
    return str(recorded) if recorded in STATES else "unknown"
