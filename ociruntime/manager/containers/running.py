"""Requests to the processes of a running container: kill, pause, unpause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ociruntime.base.errors import Conflict, ManagerError, RuntimeFailure
from ociruntime.manager.containers import states
from ociruntime.manager.containers.engine import still_there
from ociruntime.manager.containers.lifecycle import reconcile
from ociruntime.manager.containers.record import STOPPED
from ociruntime.pods.manifest.signal_names import signal_name

if TYPE_CHECKING:
    from ociruntime.manager.containers.container import Container
    from ociruntime.manager.containers.engine import Engine
    from ociruntime.pods.store.pod import Pod


async def kill(engine: Engine, container: Container, signal: str) -> None:
    """Send a signal to the container's init, without waiting for the container's lock.

    Raises Conflict, ManagerError, UsageError (unknown signal).
    """
    name = signal_name(signal)
    still_there(container)
    pod = _active_pod(container)
    record = container.record
    before = record.wanted
    if name in ("SIGKILL", signal_name(record.stop_signal)) and before != STOPPED:
        record.wanted = STOPPED
        await engine.save(record)
    try:
        await engine.programs.runtime(pod, "kill", name)
        if name == "SIGKILL" and container.pod_status().paused:
            await engine.programs.runtime(pod, "resume")  # frozen processes do not die on v1
    except RuntimeFailure as failure:
        if record.wanted != before and container.pod_status().pid is not None:
            record.wanted = before
            await engine.save(record)
        raise ManagerError(f'kill container "{record.name}": {failure}') from None
    engine.events.publish("kill", container.id, record.name, {"signal": name})


async def pause(engine: Engine, container: Container, *, paused: bool) -> None:
    """Pause or resume the container.

    Raises Conflict if it is not running or is in that state already, ManagerError.
    """
    verb = "pause" if paused else "resume"
    async with container.lock:
        still_there(container)
        await reconcile(engine, container)
        pod = _active_pod(container)
        if container.pod_status().paused == paused:
            state = "already paused" if paused else "not paused"
            raise Conflict(f'{verb} container "{container.name}": it is {state}')
        try:
            await engine.programs.runtime(pod, verb)
        except ManagerError as failure:
            raise ManagerError(f'{verb} container "{container.name}": {failure}') from None
        kind = "pause" if paused else "unpause"
        engine.events.publish(kind, container.id, container.name)


def _active_pod(container: Container) -> Pod:
    status = states.status_of(container.pod_status(), container.record.ever_started)
    pod = container.pod_handle.pod()
    if status not in states.ACTIVE or pod is None:
        raise Conflict(f'container "{container.name}": it is {status}, not running')
    return pod
