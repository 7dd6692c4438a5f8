"""What a new daemon finds: containers are taken up as they are, what was half done is finished.

Nothing is removed but what was not made to the end, or whose removal had begun; and a container
about which nothing can be learnt just now stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ociruntime.base.errors import ManagerError, RuntimeFailure
from ociruntime.manager.containers import record_store, restart_policy, states
from ociruntime.manager.containers.creation import roll_back, settle_replacing
from ociruntime.manager.containers.engine import log
from ociruntime.manager.containers.lifecycle import note, release_ports, remove_later, restart_later
from ociruntime.manager.containers.removal import remove_held

if TYPE_CHECKING:
    from ociruntime.manager.containers.container import Container
    from ociruntime.manager.containers.engine import Engine


async def reload(engine: Engine) -> None:
    """Raises HostError if not even the directory can be read; all else is logged."""
    for container_id in engine.store.ids():
        try:
            container = await _take_up(engine, container_id)
        except RuntimeFailure as failure:
            log.warning("container %s: %s", container_id[:12], failure)
            continue
        if container is not None and not container.is_corrupt:
            await _go_on(engine, container)


async def _take_up(engine: Engine, container_id: str) -> Container | None:
    store = engine.store
    if store.has(container_id, record_store.CREATING):
        log.info("container %s was not made to the end", container_id[:12])
        await roll_back(engine, container_id)
        return None
    if store.is_empty(container_id):
        store.remove(container_id)
        return None
    try:
        record = store.load(container_id)
    except ManagerError as damage:
        container = engine.new(container_id, None, str(damage))
        log.warning("container %s is corrupt: %s", container_id[:12], damage)
    else:
        container = engine.new(container_id, record)
    # First: perhaps not much of its pod is left.
    if store.has(container_id, record_store.REMOVING):
        await remove_held(engine, container)
        return None
    if not container.is_corrupt:
        await settle_replacing(engine, container)
        engine.watch(container)
    return container


async def _go_on(engine: Engine, container: Container) -> None:
    """What has happened meanwhile, and what its restart policy says."""
    record = container.record
    try:
        async with container.lock:
            look = await note(engine, container)
    except RuntimeFailure as failure:
        log.warning("container %s: %s", record.name, failure)
        return
    stopped = states.status_of(look, record.ever_started) == states.STOPPED
    if container.restart is not None or not stopped:
        return
    if record.auto_remove:
        remove_later(engine, container)
    elif restart_policy.should_restart(record, at_reload=True):
        restart_later(engine, container, 0.0, at_reload=True)
    else:
        release_ports(engine, container)
