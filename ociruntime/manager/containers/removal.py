"""Removal of containers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ociruntime.base.errors import Conflict, RuntimeFailure
from ociruntime.base.fault import fault
from ociruntime.manager.containers import record_store, states
from ociruntime.manager.containers.creation import remove_pod
from ociruntime.manager.containers.engine import still_there
from ociruntime.manager.containers.pod_arguments import ANNOTATION
from ociruntime.pods.store.manifest_file import read_object
from ociruntime.pods.store.phases import each_pod

if TYPE_CHECKING:
    from ociruntime.manager.containers.container import Container
    from ociruntime.manager.containers.engine import Engine

_REFUSED = (*states.ACTIVE, states.UNKNOWN, states.RESTARTING)


async def remove(engine: Engine, container: Container, *, force: bool) -> None:
    """Remove a container and its files; ``force`` removes a running one, too.

    Raises Conflict, ManagerError.
    """
    if force:
        container.cancel_restart()
    async with container.lock:
        if not container.removing or container.removed:
            still_there(container)
        if not force and not container.removing:
            _refuse(container)
        await remove_held(engine, container)


def _refuse(container: Container) -> None:
    ever_started = container.record.ever_started
    status = states.status_of(container.pod_status(), ever_started)
    if container.restart is not None and status == states.STOPPED:
        status = states.RESTARTING
    if status in _REFUSED:
        hint = "stop it first, or use --force"
        raise Conflict(f'remove container "{container.name}": it is {status}', hint)


async def remove_held(engine: Engine, container: Container) -> None:
    """Remove a container whose lock the caller holds.

    The marker ``removing`` is the point of no return: the next daemon finishes the removal.
    """
    await asyncio.to_thread(engine.store.write_marker, container.id, record_store.REMOVING, {})
    container.removing = True
    if container.is_corrupt:
        pods = await asyncio.to_thread(pods_of, engine.settings.directory, container.id)
    else:
        pods = [container.record.pod, *engine.store.marked_pods(container.id)]
    engine.unwatch(container)
    container.pod_handle.close()
    for uuid in dict.fromkeys(pods):
        await remove_pod(engine, uuid)
    fault("remove.after-pod")
    facts = facts_of(container)
    engine.events.publish("destroy", container.id, container.name, {"at": container.id})
    await asyncio.to_thread(engine.store.remove, container.id)
    engine.forget(container)
    container.notify(("not-running", "next-exit", "removed"), facts)


def facts_of(container: Container) -> dict[str, object]:
    """Return how the container's latest run ended, in the form that ``wait`` returns."""
    if container.is_corrupt:
        return {"exit_code": None, "signal": None, "oom_killed": False, "error": container.damage}
    last = container.record.last
    return {
        "exit_code": last.exit_code,
        "signal": last.signal,
        "oom_killed": last.oom_killed,
        "error": last.error,
        "finished_at": last.finished_at,
    }


def pods_of(directory: str, container_id: str) -> list[str]:
    """Return the UUIDs of a container's pods, found by their annotation.  Raises HostError."""
    annotation = {"name": ANNOTATION, "value": container_id}
    found = []
    for pod in each_pod(directory):
        with pod:
            try:
                manifest = read_object(pod, "pod") or {}
            except RuntimeFailure:
                continue
            if annotation in manifest.get("annotations", ()):
                found.append(pod.uuid)
    return found
