"""Describe a pod and its apps as JSON, for `status` and `list`; wait for a pod's state.

The members have the names that rkt gave them; times are in seconds since 1970::

    {"name": UUID, "state", "mutable", "created_at", "started_at", "pid", "exited",
     "networks": [{"name", "interface", "ip4", "ip6"}], "app_names": [...],
     "apps": [{"name", "state", "image_id", "image_name", "created_at", "started_at",
               "finished_at", "exit_code", ...}],
     "user_annotations": {...}, "user_labels": {...}}

Members whose values are not known are omitted.
"""

from __future__ import annotations

import os
import time
from typing import Any

from ociruntime.base.errors import PodError, RuntimeFailure
from ociruntime.base.process import is_alive
from ociruntime.pods.store.lock import open_directory, wait_for_release
from ociruntime.pods.store.manifest_file import MANIFEST, read_manifest, read_object
from ociruntime.pods.store.pod import EMBRYO, GONE, PREPARE, PREPARED, RUN, STATES, Pod

RUNNING = STATES[RUN][0]
ENDED = ("exited", "exited garbage", "exited deleting")
MUTABLE = "ociruntime/mutable"


def describe(pod: Pod) -> dict[str, Any]:
    """Return the JSON object that ``ocipod status --format=json`` prints for the pod.

    Members whose values are not known are omitted.  Raises PodError if a file of the pod is
    damaged, HostError if a file cannot be read.
    """
    try:
        return _describe(pod)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise PodError(f"read the status of pod {pod.uuid}: a file is damaged: {error}") from None


def _describe(pod: Pod) -> dict[str, Any]:
    # Read the state first: exit codes are written before the pod exits.
    state = pod.refresh()
    manifest = read_object(pod, MANIFEST) or {}
    monitor = read_object(pod, "monitor.json") or {}
    apps = [_app(pod, entry) for entry in manifest.get("apps") or ()]
    description: dict[str, Any] = {
        "name": pod.uuid,
        "state": state,
        "mutable": is_mutable(manifest),
        "created_at": _created(pod),
        "started_at": seconds(monitor.get("started")),
        "pid": _pid(monitor) if state == RUNNING else None,
        "exited": state in ENDED,
        "networks": _networks(read_object(pod, "net-info.json") or {}),
        "app_names": [app["name"] for app in apps],
        "apps": apps,
        "user_annotations": manifest.get("userAnnotations") or {},
        "user_labels": manifest.get("userLabels") or {},
    }
    return {name: value for name, value in description.items() if value is not None}


def is_mutable(manifest: dict[str, Any]) -> bool:
    """Return whether the pod with this manifest is a sandbox, whose apps can be changed."""
    annotations = manifest.get("annotations") or ()
    return any(each.get("name") == MUTABLE and each.get("value") == "true" for each in annotations)


def is_ready(pod: Pod) -> bool:
    """Return whether the pod is running and its monitor has reported that the pod is ready."""
    try:
        os.lstat(f"/proc/self/fd/{pod.fd}/ready")
    except OSError:
        return False
    return pod.refresh() == RUNNING


def exit_code(pod: Pod) -> int | None:
    """Return the pod's exit code, or None if it has not exited or its monitor was killed.

    Raises PodError if the pod's file ``exit`` is damaged, HostError if the file cannot be read.
    """
    code = (read_object(pod, "exit") or {}).get("code")
    return code if isinstance(code, int) else None


def _app(pod: Pod, entry: dict[str, Any]) -> dict[str, Any]:
    name = str(entry.get("name"))
    image = entry.get("image") or {}
    record = app_record(pod, name)
    description: dict[str, Any] = {
        "name": name,
        "state": record["state"],
        "image_id": image.get("id"),
        "image_name": image.get("name"),
        "created_at": seconds(record.get("created")),
        "started_at": seconds(record.get("started")),
        "finished_at": seconds(record.get("finished")),
        "exit_code": _code(pod, name, record),
        "signal": record.get("signal"),
        "stopped_by": record.get("stopped_by"),
        "reason": record.get("reason") or None,
    }
    return {member: value for member, value in description.items() if value is not None}


def _code(pod: Pod, name: str, record: dict[str, Any]) -> int | None:
    if isinstance(record.get("exit_code"), int):
        return int(record["exit_code"])
    try:
        return int(pod.read(f"apps/{name}/status"))
    except (OSError, ValueError):
        return None


def _created(pod: Pod) -> int | None:
    try:
        return int(os.stat("pod-created", dir_fd=pod.fd).st_mtime)
    except OSError:
        return None


def _pid(monitor: dict[str, Any]) -> int | None:
    """Return the pid of the pod's init, or None if the init has exited.

    ``monitor`` is the content of monitor.json.  It contains the init's start time, so that another
    process with a reused pid is not mistaken for the init.
    """
    pid, started = monitor.get("init_pid"), monitor.get("init_start_time")
    if isinstance(pid, int) and isinstance(started, int) and is_alive(pid, started):
        return pid
    return None


def _networks(info: dict[str, Any]) -> list[dict[str, str]]:
    members = ("name", "interface", "ip4", "ip6")
    networks = info.get("networks")
    if not isinstance(networks, list):
        return []
    return [
        {member: str(network[member]) for member in members if network.get(member)}
        for network in networks
        if isinstance(network, dict)
    ]


def seconds(stamp: object) -> int | None:
    """Convert ``stamp``, an RFC 3339 timestamp, to seconds since 1970, or None if it is invalid."""
    if not isinstance(stamp, str):
        return None
    from datetime import datetime

    try:
        return int(datetime.fromisoformat(stamp).timestamp())
    except ValueError:
        return None


def try_describe(pod: Pod, problems: list[str]) -> dict[str, Any] | None:
    """Return the pod's status as a JSON object, or None if this fails or the pod was removed.

    If it fails, append the error message to ``problems``.
    """
    try:
        description = describe(pod)
    except RuntimeFailure as failure:
        problems.append(str(failure))
        return None
    return None if description["state"] == GONE else description


APP_STATES = ("unknown", "preparing", "prepared", "running", "stopping", "exited", "deleting")
_BEFORE = {EMBRYO: "preparing", PREPARE: "preparing", PREPARED: "prepared"}


def app_names(pod: Pod) -> list[str]:
    """Return the names of the pod's apps, in the manifest's order.

    Raises PodError if the pod's manifest is damaged or not written yet, HostError if it cannot be
    read.
    """
    return [str(entry["name"]) for entry in read_manifest(pod).get("apps") or ()]


def choose_app(pod: Pod, name: str) -> str:
    """Return ``name``, or if that is "", the name of the pod's only app.

    Raises PodError if the pod has no app ``name``, or if ``name`` is "" and the pod does not have
    exactly one app.
    """
    names = app_names(pod)
    if name:
        if name not in names:
            hint = f"its apps: {', '.join(names)}" if names else "it has no apps"
            raise PodError(f'pod {pod.uuid} has no app "{name}"', hint)
        return name
    if len(names) != 1:
        hint = f"choose one with --app: {', '.join(names)}" if names else ""
        raise PodError(f"pod {pod.uuid} has {len(names) or 'no'} apps", hint)
    return names[0]


def app_record(pod: Pod, name: str) -> dict[str, Any]:
    """Return the content of an app's state.json, with the app's current state as its ``state``.

    If the pod's monitor was killed, the app counts as exited, without an exit code.  The caller
    must have called ``pod.refresh()`` just before.  Raises PodError if the file is damaged,
    HostError if it cannot be read.
    """
    record = read_object(pod, f"apps/{name}/state.json") or {}
    record["state"] = state_of(record.get("state"), pod.state, pod.phase)
    return record


def state_of(recorded: object, pod_state: str, phase: str) -> str:
    """Return the state of an app, one of APP_STATES.

    While the pod is running, this is ``recorded``, the state in the app's state.json.  Otherwise it
    follows from the pod's state and phase.
    """
    if phase in _BEFORE:
        return _BEFORE[phase]
    if pod_state != "running":
        return "exited"
    return str(recorded) if recorded in APP_STATES else "unknown"


# States that a pod keeps until it is removed.
SETTLED = ("aborted prepare", "exited", "exited garbage", "garbage", GONE)

# How to wait for a pod's end: if the pod is locked, a thread waits in flock(2).  A prepared pod is
# polled, because an observer must not lock it.
_LOCKED = tuple(locked for locked, free in STATES.values() if locked != free)
_POLL_INTERVAL = 0.05  # seconds


def wait_for_end(pod: Pod, timeout: float) -> bool:
    """Wait up to ``timeout`` seconds until the pod has exited; return whether it has.

    A pod that was removed or whose creation was aborted counts as exited.  Raises HostError if the
    pod's state cannot be determined.
    """
    deadline = time.monotonic() + timeout
    while pod.refresh() not in SETTLED:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return False
        if pod.state in _LOCKED:
            _wait_for_lock(pod, remaining)
        else:
            time.sleep(min(_POLL_INTERVAL, remaining))
    return True


def wait_until_ready(pod: Pod, timeout: float) -> bool:
    """Wait up to ``timeout`` seconds until the pod is ready; return whether it is.

    Returns False at once if the pod exits.  Raises HostError if its state cannot be determined.
    """
    deadline = time.monotonic() + timeout
    while not is_ready(pod):
        if pod.state in SETTLED or pod.refresh() in SETTLED or time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_INTERVAL)
    return True


def _wait_for_lock(pod: Pod, seconds: float) -> None:
    from threading import TIMEOUT_MAX, Thread

    # Lock another open file: ``pod.refresh`` unlocks the pod's own descriptor.
    fd = open_directory(".", pod.fd)
    thread = Thread(target=_wait_and_close, args=(fd,), daemon=True)
    thread.start()
    thread.join(min(seconds, TIMEOUT_MAX))


def _wait_and_close(fd: int) -> None:
    try:
        wait_for_release(fd)
    finally:
        os.close(fd)
