"""The state of a pod's apps, also after their monitor has ended."""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import PodError
from ociruntime.pods.store.manifest_file import read_manifest, read_object
from ociruntime.pods.store.pod import EMBRYO, PREPARE, PREPARED, Pod

STATES = ("unknown", "preparing", "prepared", "running", "stopping", "exited", "deleting")
_BEFORE = {EMBRYO: "preparing", PREPARE: "preparing", PREPARED: "prepared"}


def app_names(pod: Pod) -> list[str]:
    """Return the names in the manifest's order.  Raises PodError, HostError."""
    return [str(entry["name"]) for entry in read_manifest(pod).get("apps") or ()]


def choose_app(pod: Pod, wanted: str) -> str:
    """Return ``wanted`` if the pod has it, or the only app if empty.  Raises PodError."""
    names = app_names(pod)
    if wanted:
        if wanted not in names:
            known = ", ".join(names) or "the pod has no apps"
            raise PodError(f'pod {pod.uuid} has no app "{wanted}"', known)
        return wanted
    if len(names) != 1:
        hint = f"choose one with --app: {', '.join(names)}" if names else ""
        raise PodError(f"pod {pod.uuid} has {len(names) or 'no'} apps", hint)
    return names[0]


def app_record(pod: Pod, name: str) -> dict[str, Any]:
    """Return an app's ``state.json`` with its current state; ``pod`` must be freshly refreshed.

    After its monitor was killed, the app counts as exited, with no exit code.  Raises PodError.
    """
    record = read_object(pod, f"apps/{name}/state.json") or {}
    record["state"] = state_of(record.get("state"), pod.state, pod.phase)
    return record


def state_of(recorded: object, pod_state: str, phase: str) -> str:
    """Return one of ``STATES``."""
    if phase in _BEFORE:
        return _BEFORE[phase]
    if pod_state != "running":
        return "exited"
    return str(recorded) if recorded in STATES else "unknown"
