"""Start, stop and restart, and the reconciliation of a container's record with its pod.

The state file of the pod's app is the truth.  The record remembers which start and which exit were
acted on; so events, restarts and removals follow even if no daemon was running when it happened.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ociruntime.base.errors import (
    Conflict,
    HostError,
    ManagerError,
    PodError,
    RuntimeFailure,
    StartFailed,
)
from ociruntime.manager.containers import restart_policy, states
from ociruntime.manager.containers.creation import replace_pod
from ociruntime.manager.containers.engine import log, still_there
from ociruntime.manager.containers.pod_calls import ask, halt
from ociruntime.manager.containers.pod_status import APP
from ociruntime.manager.containers.record import RUNNING, STOPPED, Last
from ociruntime.manager.containers.removal import facts_of, remove_held

if TYPE_CHECKING:
    from ociruntime.manager.containers.container import Container
    from ociruntime.manager.containers.engine import Engine
    from ociruntime.manager.containers.pod_status import PodStatus
    from ociruntime.manager.containers.record import Record

_FAILED = 125
_OF_THE_PROGRAM = (126, 127)
DRAIN_TIMEOUT = 30.0  # seconds for attached clients to read the remaining output


# --- reconciliation ---


def schedule_reconcile(engine: Engine, container: Container) -> None:
    """Reconcile the container once its lock is free: its pod or app may have changed."""
    gone = container.removing or container.is_corrupt or engine.closing
    if gone or container.reconcile_scheduled:
        return
    container.reconcile_scheduled = True
    engine.begin(_reconcile_later(engine, container), f'reconcile container "{container.name}"')


async def _reconcile_later(engine: Engine, container: Container) -> None:
    async with container.lock:
        container.reconcile_scheduled = False
        if not container.removing:
            await reconcile(engine, container)


async def reconcile(engine: Engine, container: Container) -> PodStatus:
    """Compare the container's record with its pod, and act on a new start or exit.

    The caller holds ``container.lock``.
    """
    pod_status = container.pod_status()
    record = container.record
    if pod_status.problem:
        return pod_status
    before = (record.seen_start, record.seen_end)
    started = pod_status.last.started_at if pod_status.last else None
    if started and started != record.seen_start:
        record.seen_start = started
        record.ever_started = True
        record.last = Last(started_at=started)
        engine.events.publish("start", container.id, record.name, {"at": started})
    running = record.last.started_at if not (record.last.finished_at or record.last.error) else None
    end = states.end_of(pod_status, running)
    ended = bool(end) and end != record.seen_end
    if ended:
        _record_exit(engine, container, pod_status, end)
    if (record.seen_start, record.seen_end) != before:
        try:
            await engine.save(record)
        except HostError as error:
            # Not fatal: waiters and restarts go on, and the next daemon reconciles again.
            log.warning('save the record of container "%s": %s', record.name, error)
    if ended:
        container.notify(("not-running", "next-exit"), facts_of(container))
        _follow_up(engine, container)
    return pod_status


def _record_exit(engine: Engine, container: Container, pod_status: PodStatus, end: str) -> None:
    record = container.record
    record.seen_end = end
    record.ever_started = True
    if pod_status.app_state == "exited" and pod_status.last is not None:
        record.last = replace(pod_status.last)
    else:
        record.last = Last(started_at=record.last.started_at, error=states.UNSEEN)
    last = record.last
    if last.exit_code is not None and last.error:
        return  # the program could not be executed: the container never ran
    attributes: dict[str, Any] = {
        "at": end,
        "exit_code": last.exit_code,
        "signal": last.signal,
        "finished_at": last.finished_at,
    }
    if last.oom_killed:
        engine.events.publish("oom", container.id, record.name, {"at": end})
    engine.events.publish("die", container.id, record.name, attributes)
    if pod_status.stopped_by == "stop":
        engine.events.publish("stop", container.id, record.name, {"at": end})


def _follow_up(engine: Engine, container: Container) -> None:
    record = container.record
    if record.auto_remove:
        remove_later(engine, container)
    elif restart_policy.should_restart(record):
        last = record.last
        uptime = _seconds_between(last.started_at, last.finished_at) if not last.error else 0.0
        container.delay = restart_policy.next_delay(container.delay, uptime)
        restart_later(engine, container, container.delay)
    else:
        release_ports(engine, container)


def release_ports(engine: Engine, container: Container) -> None:
    """End the pod of an exited container if it forwards ports, to free them on the host."""
    if container.record.spec.get("ports"):
        engine.begin(_end_pod(engine, container), f'stop the pod of container "{container.name}"')


async def _drain(container: Container) -> None:
    try:
        await asyncio.wait_for(container.unattached.wait(), DRAIN_TIMEOUT)
    except TimeoutError:
        return


async def _end_pod(engine: Engine, container: Container) -> None:
    await _drain(container)
    async with container.lock:
        pod_status = container.pod_status()
        pod = container.pod_handle.pod()
        ended = pod_status.pod_state == "running" and pod_status.app_state == "exited"
        if ended and pod is not None and container.restart is None and not container.removing:
            await halt(engine.programs, pod)


def remove_later(engine: Engine, container: Container) -> None:
    """Remove an exited container (auto_remove) once attached clients have drained its output."""
    engine.begin(_remove_ended(engine, container), f'remove container "{container.name}"')


async def _remove_ended(engine: Engine, container: Container) -> None:
    await _drain(container)
    async with container.lock:
        if container.removing:
            return
        pod_status = container.pod_status()
        # A request that held the lock before us may have started the container again.
        if states.status_of(pod_status, container.record.ever_started) == states.STOPPED:
            container.cancel_restart()
            await remove_held(engine, container)


def _seconds_between(first: str | None, last: str | None) -> float:
    if not first or not last:
        return 0.0
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()


def restart_later(
    engine: Engine, container: Container, delay: float, *, at_reload: bool = False
) -> None:
    """Start the container in ``delay`` seconds, unless a request cancels the restart."""
    container.cancel_restart()
    work = _restart(engine, container, delay, at_reload)
    container.restart = engine.begin(work, f'restart container "{container.name}"')


async def _restart(engine: Engine, container: Container, delay: float, at_reload: bool) -> None:
    await asyncio.sleep(delay)
    async with container.lock:
        if container.restart is not asyncio.current_task():
            return
        container.restarting = True
        try:
            await _restart_held(engine, container, at_reload)
        finally:
            container.restarting = False
            if container.restart is asyncio.current_task():
                container.restart = None


async def _restart_held(engine: Engine, container: Container, at_reload: bool) -> None:
    still_there(container)
    record = container.record
    pod_status = await reconcile(engine, container)
    if states.status_of(pod_status, True) != states.STOPPED:
        return
    if not at_reload:
        record.restart_count += 1
    try:
        await start_held(engine, container)
    except RuntimeFailure as failure:
        log.warning('restart container "%s": %s', record.name, failure)
        if container.restart is asyncio.current_task():
            # The pod could not be made, so no exit will schedule the next attempt.
            container.restart = None
            if restart_policy.should_restart(record):
                container.delay = restart_policy.next_delay(container.delay, 0)
                restart_later(engine, container, container.delay)


# --- requests ---


async def start(engine: Engine, container: Container, *, strict: bool) -> bool:
    """Start a container; return False if it is running already.

    Raises Conflict, StartFailed, ManagerError.
    """
    async with container.lock:
        still_there(container)
        record = container.record
        pod_status = await reconcile(engine, container)
        status = states.status_of(pod_status, record.ever_started)
        if strict and status not in (states.CREATED, states.STOPPED):
            raise _cannot_start(record, status)
        if status == states.RUNNING:
            return False
        if status not in (states.CREATED, states.STOPPED, states.RESTARTING):
            raise _cannot_start(record, status)
        container.cancel_restart()
        container.delay = 0.0
        record.restart_count = 0
        try:
            await start_held(engine, container)
        except BaseException:
            if record.wanted == STOPPED:
                await engine.save(record)
            raise
        return True


async def prepare(engine: Engine, container: Container) -> None:
    """Make a new pod if the container's has exited, so that a client can attach before the start.

    Raises ManagerError.
    """
    async with container.lock:
        still_there(container)
        pod_status = await reconcile(engine, container)
        status = states.status_of(pod_status, container.record.ever_started)
        if pod_status.pod_state != "running" and status in (states.CREATED, states.STOPPED):
            await replace_pod(engine, container)


def _cannot_start(record: Record, status: str) -> Conflict:
    hint = "only a created or stopped container can be started"
    return Conflict(f'start container "{record.name}": it is {status}', hint)


async def start_held(engine: Engine, container: Container) -> None:
    """Start a container whose lock the caller holds.  Raises StartFailed, ManagerError."""
    record = container.record
    pod_status = container.pod_status()
    if pod_status.problem:
        raise ManagerError(f'start container "{record.name}": {pod_status.problem}')
    if pod_status.pod_state != "running":
        await replace_pod(engine, container)
    record.wanted = RUNNING
    await engine.save(record)
    pod = container.pod_handle.pod()
    if pod is None:
        raise ManagerError(f'start container "{record.name}": its pod is gone')
    try:
        await ask(pod, {"op": "start", "app": APP})
    except PodError as error:
        pod_status = container.pod_status()
        if pod_status.last is None or pod_status.last.exit_code is None:
            raise ManagerError(f'start container "{record.name}": {error}') from None
        if container.restart is not asyncio.current_task():
            record.wanted = STOPPED  # the client gets the error and decides about a retry
        exit_code = pod_status.last.exit_code
        code = exit_code if exit_code in _OF_THE_PROGRAM else _FAILED
        await reconcile(engine, container)
        raise StartFailed(f'start container "{record.name}": {error}', code) from None
    await reconcile(engine, container)


async def stop(
    engine: Engine, container: Container, seconds: float | None, *, strict: bool
) -> bool:
    """Stop a container; return False if it was not running.  Raises Conflict, ManagerError."""
    container.cancel_restart()
    await hasten(container, container.record.stop_timeout if seconds is None else seconds)
    async with container.lock:
        still_there(container)
        return await _stop_held(engine, container, seconds, strict=strict)


async def hasten(container: Container, seconds: float) -> None:
    """Shorten the timeout of a stop that is in progress to ``seconds``."""
    pod = container.pod_handle.pod() if container.lock.locked() else None
    if pod is not None and container.pod_status().app_state == "stopping":
        try:
            await ask(pod, {"op": "stop", "app": APP, "seconds": seconds})
        except RuntimeFailure:
            return  # the stop in progress meets the same failure and reports it


async def _stop_held(
    engine: Engine, container: Container, seconds: float | None, *, strict: bool = False
) -> bool:
    record = container.record
    pod_status = await reconcile(engine, container)
    container.cancel_restart()
    status = states.status_of(pod_status, record.ever_started)
    if strict and status != states.RUNNING:
        raise Conflict(
            f'stop container "{record.name}": it is {status}',
            "only a running container can be stopped",
        )
    if record.wanted != STOPPED:
        record.wanted = STOPPED
        await engine.save(record)
    pod = container.pod_handle.pod()
    if status not in (*states.ACTIVE, states.RESTARTING) or pod is None:
        # Clients may wait for the end of a pending restart, which was cancelled above.
        container.notify(("not-running",), facts_of(container))
        release_ports(engine, container)
        return False
    timeout = record.stop_timeout if seconds is None else seconds
    if status == states.PAUSED:
        await engine.programs.runtime(pod, "resume")
    try:
        await ask(pod, {"op": "stop", "app": APP, "seconds": timeout})
    except RuntimeFailure as error:
        if (await reconcile(engine, container)).pid is not None:
            raise ManagerError(f'stop container "{record.name}": {error}') from None
    await reconcile(engine, container)
    return True


async def restart(engine: Engine, container: Container, seconds: float | None) -> None:
    """Stop a container, if it is running, and start it.

    Raises Conflict, StartFailed, ManagerError.
    """
    container.cancel_restart()
    async with container.lock:
        still_there(container)
        await _stop_held(engine, container, seconds)
        container.record.restart_count = 0
        container.delay = 0.0
        await start_held(engine, container)
        engine.events.publish("restart", container.id, container.name)
