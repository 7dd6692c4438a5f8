"""Starting and stopping, and what follows when a container was seen to have ended.

The app's own record is the truth; the manager's notes tell up to where it has been acted on.  So it
does not matter whether a daemon was there when it happened.
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
    from ociruntime.manager.containers.pod_status import Look
    from ociruntime.manager.containers.record import Record

_FAILED = 125
_OF_THE_PROGRAM = (126, 127)
UNREAD = 30.0  # seconds that who is attached may take to read what an ended one has left


# --- what has happened ---


def notice(engine: Engine, container: Container) -> None:
    """Its pod or app may have changed: looked at as soon as nobody else has it in hand."""
    gone = container.removing or container.is_corrupt or engine.closing
    if gone or container.look_wanted:
        return
    container.look_wanted = True
    engine.begin(_look(engine, container), f"look at container {container.name}")


async def _look(engine: Engine, container: Container) -> None:
    async with container.lock:
        container.look_wanted = False
        if not container.removing:
            await note(engine, container)


async def note(engine: Engine, container: Container) -> Look:
    """Act on what its pod shows and was not acted on yet; ``container.lock`` is ours."""
    look = container.look()
    record = container.record
    if look.problem:
        return look
    before = (record.seen_start, record.seen_end)
    started = look.last.started_at if look.last else None
    if started and started != record.seen_start:
        record.seen_start = started
        record.ever_started = True
        record.last = Last(started_at=started)
        engine.events.publish("start", container.id, record.name, {"at": started})
    running = record.last.started_at if not (record.last.finished_at or record.last.error) else None
    end = states.end_of(look, running)
    ended = bool(end) and end != record.seen_end
    if ended:
        _note_end(engine, container, look, end)
    if (record.seen_start, record.seen_end) != before:
        try:
            await engine.save(record)
        except HostError as error:
            # What follows does so all the same; a new daemon sees the pod again.
            log.warning("container %s: note what has happened: %s", record.name, error)
    if ended:
        container.tell(("not-running", "next-exit"), facts_of(container))
        _follow_up(engine, container)
    return look


def _note_end(engine: Engine, container: Container, look: Look, end: str) -> None:
    record = container.record
    record.seen_end = end
    record.ever_started = True
    if look.app_state == "exited" and look.last is not None:
        record.last = replace(look.last)
    else:
        record.last = Last(started_at=record.last.started_at, error=states.UNSEEN)
    last = record.last
    if last.exit_code is not None and last.error:
        return  # it has never been running
    attributes: dict[str, Any] = {
        "at": end,
        "exit_code": last.exit_code,
        "signal": last.signal,
        "finished_at": last.finished_at,
    }
    if last.oom_killed:
        engine.events.publish("oom", container.id, record.name, {"at": end})
    engine.events.publish("die", container.id, record.name, attributes)
    if look.stopped_by == "stop":
        engine.events.publish("stop", container.id, record.name, {"at": end})


def _follow_up(engine: Engine, container: Container) -> None:
    record = container.record
    if record.auto_remove:
        remove_later(engine, container)
    elif restart_policy.should_restart(record):
        last = record.last
        uptime = _seconds(last.started_at, last.finished_at) if not last.error else 0.0
        container.delay = restart_policy.next_delay(container.delay, uptime)
        restart_later(engine, container, container.delay)
    else:
        release_ports(engine, container)


def release_ports(engine: Engine, container: Container) -> None:
    """Of one that has ended: the ports of the host are for others, until it is started again."""
    if container.record.spec.get("ports"):
        engine.begin(_end_pod(engine, container), f"end the pod of container {container.name}")


async def _all_is_read(container: Container) -> None:
    try:
        await asyncio.wait_for(container.unattached.wait(), UNREAD)
    except TimeoutError:
        return


async def _end_pod(engine: Engine, container: Container) -> None:
    await _all_is_read(container)
    async with container.lock:
        look = container.look()
        pod = container.place.pod()
        ended = look.pod_state == "running" and look.app_state == "exited"
        if ended and pod is not None and container.restart is None and not container.removing:
            await halt(engine.programs, pod)


def remove_later(engine: Engine, container: Container) -> None:
    """It was to be removed at its end."""
    engine.begin(_remove_ended(engine, container), f"remove container {container.name}")


async def _remove_ended(engine: Engine, container: Container) -> None:
    await _all_is_read(container)
    async with container.lock:
        if container.removing:
            return
        look = container.look()
        # Whoever had the lock may have started it again.
        if states.status_of(look, container.record.ever_started) == states.STOPPED:
            container.cancel_restart()
            await remove_held(engine, container)


def _seconds(first: str | None, last: str | None) -> float:
    if not first or not last:
        return 0.0
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds()


def restart_later(
    engine: Engine, container: Container, delay: float, *, at_reload: bool = False
) -> None:
    """Start it in ``delay`` seconds, unless something else is asked for."""
    container.cancel_restart()
    work = _restart(engine, container, delay, at_reload)
    container.restart = engine.begin(work, f"restart container {container.name}")


async def _restart(engine: Engine, container: Container, delay: float, at_reload: bool) -> None:
    await asyncio.sleep(delay)
    async with container.lock:
        if container.restart is not asyncio.current_task():
            return
        container.under_way = True
        try:
            await _restart_held(engine, container, at_reload)
        finally:
            container.under_way = False
            if container.restart is asyncio.current_task():
                container.restart = None


async def _restart_held(engine: Engine, container: Container, at_reload: bool) -> None:
    still_there(container)
    record = container.record
    look = await note(engine, container)
    if states.status_of(look, True) != states.STOPPED:
        return
    if not at_reload:
        record.restart_count += 1
    try:
        await start_held(engine, container)
    except RuntimeFailure as failure:
        log.warning("restart container %s: %s", record.name, failure)
        if container.restart is asyncio.current_task():
            # Nothing was there to end: the pod could not be made.
            container.restart = None
            if restart_policy.should_restart(record):
                container.delay = restart_policy.next_delay(container.delay, 0)
                restart_later(engine, container, container.delay)


# --- what is asked for ---


async def start(engine: Engine, container: Container, *, strict: bool) -> bool:
    """Raises Conflict, StartFailed, ManagerError."""
    async with container.lock:
        still_there(container)
        record = container.record
        look = await note(engine, container)
        status = states.status_of(look, record.ever_started)
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
    """A pod for one whose pod has ended, so that it can be attached to before it is started.

    Raises ManagerError.
    """
    async with container.lock:
        still_there(container)
        look = await note(engine, container)
        status = states.status_of(look, container.record.ever_started)
        if look.pod_state != "running" and status in (states.CREATED, states.STOPPED):
            await replace_pod(engine, container)


def _cannot_start(record: Record, status: str) -> Conflict:
    hint = "only created or stopped ones can be started"
    return Conflict(f'container "{record.name}": it is {status}', hint)


async def start_held(engine: Engine, container: Container) -> None:
    """While its lock is ours.  Raises StartFailed, ManagerError."""
    record = container.record
    look = container.look()
    if look.problem:
        raise ManagerError(f'start container "{record.name}": {look.problem}')
    if look.pod_state != "running":
        await replace_pod(engine, container)
    record.wanted = RUNNING
    await engine.save(record)
    pod = container.place.pod()
    if pod is None:
        raise ManagerError(f"the pod of container {record.name} has vanished")
    try:
        await ask(pod, {"op": "start", "app": APP})
    except PodError as error:
        look = container.look()
        if look.last is None or look.last.exit_code is None:
            raise ManagerError(f'start container "{record.name}": {error}') from None
        if container.restart is not asyncio.current_task():
            record.wanted = STOPPED  # who has started it is told
        code = look.last.exit_code if look.last.exit_code in _OF_THE_PROGRAM else _FAILED
        await note(engine, container)
        raise StartFailed(f'start container "{record.name}": {error}', code) from None
    await note(engine, container)


async def stop(
    engine: Engine, container: Container, seconds: float | None, *, strict: bool
) -> bool:
    """Raises Conflict, ManagerError."""
    container.cancel_restart()
    await hasten(container, container.record.stop_timeout if seconds is None else seconds)
    async with container.lock:
        still_there(container)
        return await _stop_held(engine, container, seconds, strict=strict)


async def hasten(container: Container, seconds: float) -> None:
    """If it is just being stopped by somebody with more patience, no more than ``seconds``."""
    pod = container.place.pod() if container.lock.locked() else None
    if pod is not None and container.look().app_state == "stopping":
        try:
            await ask(pod, {"op": "stop", "app": APP, "seconds": seconds})
        except RuntimeFailure:
            return  # who holds the lock is told the same


async def _stop_held(
    engine: Engine, container: Container, seconds: float | None, *, strict: bool = False
) -> bool:
    record = container.record
    look = await note(engine, container)
    container.cancel_restart()
    status = states.status_of(look, record.ever_started)
    if strict and status != states.RUNNING:
        raise Conflict(
            f'container "{record.name}": it is {status}', "only running ones can be stopped"
        )
    if record.wanted != STOPPED:
        record.wanted = STOPPED
        await engine.save(record)
    pod = container.place.pod()
    if status not in (*states.ACTIVE, states.RESTARTING) or pod is None:
        # Whoever waits for the end of a restart that was pending.
        container.tell(("not-running",), facts_of(container))
        release_ports(engine, container)
        return False
    patience = record.stop_timeout if seconds is None else seconds
    if status == states.PAUSED:
        await engine.programs.runtime(pod, "resume")
    try:
        await ask(pod, {"op": "stop", "app": APP, "seconds": patience})
    except RuntimeFailure as error:
        if (await note(engine, container)).pid is not None:
            raise ManagerError(f'stop container "{record.name}": {error}') from None
    await note(engine, container)
    return True


async def restart(engine: Engine, container: Container, seconds: float | None) -> None:
    """Raises Conflict, StartFailed, ManagerError."""
    container.cancel_restart()
    async with container.lock:
        still_there(container)
        await _stop_held(engine, container, seconds)
        container.record.restart_count = 0
        container.delay = 0.0
        await start_held(engine, container)
        engine.events.publish("restart", container.id, container.name)
