"""Creation of containers, and replacement of the pod of a container whose pod has exited."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from ociruntime.base.errors import BadRequest, HostError, ManagerError, RuntimeFailure
from ociruntime.base.fault import fault
from ociruntime.base.json_files import now
from ociruntime.manager.containers import names, pod_arguments, record_store
from ociruntime.manager.containers.engine import log
from ociruntime.manager.containers.pod_calls import halt
from ociruntime.manager.containers.pod_status import APP
from ociruntime.manager.containers.record import Record
from ociruntime.manager.containers.spec import checked
from ociruntime.pods.manifest.build import app_entry
from ociruntime.pods.store.manifest_file import read_manifest, read_runtime_config

if TYPE_CHECKING:
    from ociruntime.manager.containers.container import Container
    from ociruntime.manager.containers.engine import Engine
    from ociruntime.pods.store.pod import Pod


async def create(engine: Engine, request: object) -> Container:
    """Create a container from a client's request; after an error, nothing of it remains.

    Raises BadRequest, Forbidden, Conflict, ManagerError.
    """
    spec = checked(request)
    engine.settings.check_insecure(spec.get("insecure") or ())
    rootfs = spec.get("rootfs")
    if rootfs is not None and not os.path.isdir(rootfs):
        raise BadRequest("rootfs", f"directory not found: {rootfs}")
    container_id = names.new_id()
    name = spec.get("name") or names.new_name(engine.names)
    engine.reserve(name, container_id)
    try:
        return await _create(engine, spec, container_id, name)
    except BaseException:
        engine.release(name, container_id)
        raise


async def _create(engine: Engine, spec: dict[str, Any], container_id: str, name: str) -> Container:
    image_id = await _fetch(engine, spec)
    await asyncio.to_thread(engine.store.begin, container_id)
    try:
        fault("create.after-intent")
        pod = await _make_pod(engine, spec, container_id, image_id)
        try:
            entry = app_entry(read_manifest(pod), APP)
            record = Record(
                id=container_id,
                name=name,
                image=spec.get("image") or "",
                image_id=image_id,
                command=[str(word) for word in entry["app"]["exec"]],
                created_at=now(),
                pod=pod.uuid,
                spec=spec,
            )
        finally:
            pod.close()
        fault("create.after-bundle")
        await engine.save(record)
        container = engine.new(container_id, record)
        engine.watch(container)
        attributes = {"at": container_id, "image": record.image or f"dir:{spec.get('rootfs')}"}
        engine.events.publish("create", container_id, name, attributes)
        # The commit point: a daemon that is killed from here on leaves a complete container.
        engine.store.forget(container_id, record_store.CREATING, record_store.POD)
    except BaseException:
        known = engine.containers.pop(container_id, None)
        if known is not None:
            engine.unwatch(known)
            known.pod_handle.close()
        await roll_back(engine, container_id, name)
        raise
    return container


async def roll_back(engine: Engine, container_id: str, name: str = "") -> None:
    """Remove everything that an unfinished creation has made.

    Raises RuntimeFailure; it can be repeated then.
    """
    await _remove_new_pod(engine, container_id, "")
    if engine.events.has("create", container_id, container_id):
        engine.events.publish("destroy", container_id, name, {"at": container_id})
    await asyncio.to_thread(engine.store.remove, container_id)


async def _remove_new_pod(engine: Engine, container_id: str, kept: str) -> None:
    """Remove the pod that was being made, unless it is the container's own by now (``kept``)."""
    uuid = engine.store.new_pod(container_id)
    if uuid and uuid != kept:
        await remove_pod(engine, uuid)


async def remove_pod(engine: Engine, uuid: str) -> None:
    """Kill and remove a pod, whatever its state.  Raises RuntimeFailure."""
    handle = engine.pod_handle(uuid)
    try:
        pod = handle.pod()
        if pod is None:
            return
        await halt(engine.programs, pod, paused=handle.pod_status().paused)
        try:
            await engine.programs.ocipod("rm", uuid)
        except ManagerError:
            if pod.refresh() != "gone":  # another process may have removed it meanwhile
                raise
    finally:
        handle.close()


async def replace_pod(engine: Engine, container: Container) -> None:
    """Move a container whose pod has exited to a new pod, with its files.

    Raises ManagerError; the container is unchanged then.
    """
    record = container.record
    store = engine.store
    await settle_replacing(engine, container)
    if container.pod_status().pod_state == "running":
        return
    # An earlier replacement may not have removed its old pods yet.
    older = store.read_marker(record.id, record_store.REPLACING).get("old", ())
    old = [*(uuid for uuid in older if uuid != record.pod), record.pod]
    store.write_marker(record.id, record_store.REPLACING, {"old": old, "pod": "", "moving": False})
    try:
        try:
            pod = await _make_pod(engine, record.spec, record.id, record.image_id)
        except ManagerError:
            # The image may have been garbage-collected: fetch it again by name.
            await _remove_new_pod(engine, record.id, record.pod)
            record.image_id = await _fetch(engine, record.spec)
            pod = await _make_pod(engine, record.spec, record.id, record.image_id)
    except RuntimeFailure:
        await _undo_replacing(engine, record)
        raise
    try:
        marker = {"old": old, "pod": pod.uuid, "moving": True}
        store.write_marker(record.id, record_store.REPLACING, marker)
        fault("replace.before-move")
        await _finish_replacing(engine, container, pod.uuid)
    finally:
        pod.close()


async def settle_replacing(engine: Engine, container: Container) -> None:
    """Finish or undo an interrupted replacement of the pod.  Raises RuntimeFailure."""
    record = container.record
    store = engine.store
    if not any(store.has(record.id, name) for name in (record_store.REPLACING, record_store.POD)):
        return
    marker = store.read_marker(record.id, record_store.REPLACING)
    uuid = str(marker.get("pod") or "")
    if marker.get("moving") and uuid != record.pod and _pod_exists(engine, uuid):
        await _finish_replacing(engine, container, uuid)
    elif uuid != record.pod:
        await _undo_replacing(engine, record)
    else:
        await _end_replacing(engine, record)


def _pod_exists(engine: Engine, uuid: str) -> bool:
    handle = engine.pod_handle(uuid)
    try:
        return handle.pod() is not None
    finally:
        handle.close()


async def _end_replacing(engine: Engine, record: Record) -> None:
    """Remove the old pods.

    A failure is only logged: an old pod does no harm, and the next daemon tries again.
    """
    store = engine.store
    for uuid in store.read_marker(record.id, record_store.REPLACING).get("old", ()):
        if uuid == record.pod:
            continue
        try:
            await remove_pod(engine, str(uuid))
        except RuntimeFailure as failure:
            log.warning("remove the old pod of container %s: %s", record.id[:12], failure)
            # This marker names the container's own pod by now.
            store.forget(record.id, record_store.POD)
            return
    store.forget(record.id, record_store.REPLACING, record_store.POD)


async def _undo_replacing(engine: Engine, record: Record) -> None:
    """Undo a replacement before any file was moved.  Raises RuntimeFailure."""
    store = engine.store
    await _remove_new_pod(engine, record.id, record.pod)
    marked = store.read_marker(record.id, record_store.REPLACING).get("old", ())
    older = [uuid for uuid in marked if uuid != record.pod]
    if older:  # still to be removed, from an earlier replacement
        marker = {"old": older, "pod": record.pod, "moving": False}
        store.write_marker(record.id, record_store.REPLACING, marker)
        store.forget(record.id, record_store.POD)
    else:
        store.forget(record.id, record_store.REPLACING, record_store.POD)


async def _finish_replacing(engine: Engine, container: Container, uuid: str) -> None:
    """Move the files and record the new pod; idempotent.  Raises RuntimeFailure."""
    record = container.record
    old, new = container.pod_handle, engine.pod_handle(uuid)
    source = old.pod()
    try:
        await asyncio.to_thread(_move_files, source, new.pod())
    except OSError as error:
        # If a user is just removing the old pod by hand, there is nothing left to move.
        if source is not None and source.refresh() not in ("gone", "exited deleting"):
            action = f'move the files of container "{record.name}" to a new pod'
            raise HostError(action, error) from None
    finally:
        new.close()
    before, record.pod = record.pod, uuid
    try:
        await engine.save(record)
    except BaseException:
        record.pod = before
        raise
    engine.unwatch(container)
    old.close()
    container.pod_handle = engine.pod_handle(uuid)
    engine.watch(container)
    await _end_replacing(engine, record)


def _move_files(old: Pod | None, new: Pod | None) -> None:
    """Move the writable layer, volumes and logs to the new pod.  Raises OSError, RuntimeFailure."""
    if old is None or new is None:
        return
    source, target = (f"/proc/self/fd/{pod.fd}" for pod in (old, new))
    overlay = bool(read_runtime_config(old).get("overlay"))
    files = "upper" if overlay else "bundle/rootfs"
    moved = [f"apps/{APP}/{files}"]
    for directory in ("volumes", "logs"):
        moved += [f"{directory}/{name}" for name in os.listdir(f"{source}/{directory}")]
    for name in moved:
        if os.path.lexists(f"{source}/{name}"):
            _replace(f"{source}/{name}", f"{target}/{name}")


def _replace(source: str, target: str) -> None:
    from ociruntime.pods.store.lock import open_directory
    from ociruntime.pods.store.removal import remove_tree

    parent, _, name = target.rpartition("/")
    fd = open_directory(parent)
    try:
        remove_tree(fd, name)
    finally:
        os.close(fd)
    os.rename(source, target)


async def _fetch(engine: Engine, spec: dict[str, Any]) -> str:
    settings = engine.settings
    options = pod_arguments.global_args(spec, settings.insecure, settings.client_insecure)
    args = [*options, *pod_arguments.fetch_args(spec)]
    # A local directory needs no network, so it does not compete with slow downloads.
    run = engine.programs.ocipod if "rootfs" in spec else engine.programs.fetch
    return (await run(*args)).strip()


async def _make_pod(engine: Engine, spec: dict[str, Any], container_id: str, image_id: str) -> Pod:
    """Make a pod with the container's app in it, not started.

    Raises ManagerError; the marker ``pod`` names the pod for the roll-back.
    """
    store = engine.store
    settings = engine.settings
    options = pod_arguments.global_args(spec, settings.insecure, settings.client_insecure)
    sandbox, add = pod_arguments.spec_args(spec, container_id, image_id, store.volume)
    saved = f"--uuid-file-save={store.path(container_id, record_store.POD)}"
    uuid = (await engine.programs.ocipod(*options, *sandbox, saved)).strip()
    await engine.programs.ocipod(*options, "app", "add", uuid, *add)
    pod = engine.pod_handle(uuid).pod()
    if pod is None:
        raise ManagerError(f"make a pod for container {container_id[:12]}: pod {uuid} is gone")
    return pod
