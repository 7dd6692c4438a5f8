"""Loading of the existing containers when the daemon starts.

Running containers are left alone.  An unfinished creation is rolled back, and an unfinished removal
or replacement of a pod is completed; nothing else is removed.  A container that cannot be read is
kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ociruntime.base.errors import ManagerError, RuntimeFailure
from ociruntime.manager.containers import record_store, restart_policy, states
from ociruntime.manager.containers.creation import roll_back, settle_replacing
from ociruntime.manager.containers.engine import log
from ociruntime.manager.containers.lifecycle import (
    reconcile,
    release_ports,
    remove_later,
    restart_later,
)
from ociruntime.manager.containers.removal import remove_held

if TYPE_CHECKING:
    from ociruntime.manager.containers.container import Container
    from ociruntime.manager.containers.engine import Engine


async def reload(engine: Engine) -> None:
    """Load and reconcile every container; a failure of one is logged.

    Raises HostError if the data directory cannot be read.
    """
    for container_id in engine.store.ids():
        try:
            container = await _load(engine, container_id)
        except RuntimeFailure as failure:
            log.warning('load container "%s": %s', container_id[:12], failure)
            continue
        if container is not None and not container.is_corrupt:
            await _resume(engine, container)


async def _load(engine: Engine, container_id: str) -> Container | None:
    store = engine.store
    if store.has(container_id, record_store.CREATING):
        log.info('container "%s": rolling back its unfinished creation', container_id[:12])
        await roll_back(engine, container_id)
        return None
    if store.is_empty(container_id):
        store.remove(container_id)
        return None
    try:
        record = store.load(container_id)
    except ManagerError as damage:
        container = engine.new(container_id, None, str(damage))
        log.warning('container "%s": its record is corrupt: %s', container_id[:12], damage)
    else:
        container = engine.new(container_id, record)
    # Before anything else: a half-removed pod cannot be reconciled.
    if store.has(container_id, record_store.REMOVING):
        await remove_held(engine, container)
        return None
    if not container.is_corrupt:
        await settle_replacing(engine, container)
        engine.watch(container)
    return container


async def _resume(engine: Engine, container: Container) -> None:
    """Reconcile a container with what happened while no daemon ran; apply its restart policy."""
    record = container.record
    try:
        async with container.lock:
            pod_status = await reconcile(engine, container)
    except RuntimeFailure as failure:
        log.warning('reconcile container "%s": %s', record.name, failure)
        return
    stopped = states.status_of(pod_status, record.ever_started) == states.STOPPED
    if container.restart is not None or not stopped:
        return
    if record.auto_remove:
        remove_later(engine, container)
    elif restart_policy.should_restart(record, at_reload=True):
        restart_later(engine, container, 0.0, at_reload=True)
    else:
        release_ports(engine, container)
