"""The end of containers."""

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
    """With all its files; a running one only with ``force``.  Raises Conflict, ManagerError."""
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
    status = states.status_of(container.look(), ever_started)
    if container.restart is not None and status == states.STOPPED:
        status = states.RESTARTING
    if status in _REFUSED:
        raise Conflict(f'container "{container.name}": it is {status}', "stop it first, or --force")


async def remove_held(engine: Engine, container: Container) -> None:
    """While its lock is ours.  From the note on it is gone, sooner or later."""
    await asyncio.to_thread(engine.store.note, container.id, record_store.REMOVING, {})
    container.removing = True
    if container.is_corrupt:
        pods = await asyncio.to_thread(pods_of, engine.settings.directory, container.id)
    else:
        pods = [container.record.pod, *engine.store.pods_noted(container.id)]
    engine.unwatch(container)
    container.place.close()
    for uuid in dict.fromkeys(pods):
        await remove_pod(engine, uuid)
    fault("remove.after-pod")
    facts = facts_of(container)
    engine.events.publish("destroy", container.id, container.name, {"at": container.id})
    await asyncio.to_thread(engine.store.remove, container.id)
    engine.forget(container)
    container.tell(("not-running", "next-exit", "removed"), facts)


def facts_of(container: Container) -> dict[str, object]:
    """How the container has ended, as ``wait`` tells it."""
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
    """UUIDs of the pods that were made for a container.  Raises HostError."""
    wanted = {"name": ANNOTATION, "value": container_id}
    found = []
    for pod in each_pod(directory):
        with pod:
            try:
                manifest = read_object(pod, "pod") or {}
            except RuntimeFailure:
                continue
            if wanted in manifest.get("annotations", ()):
                found.append(pod.uuid)
    return found
