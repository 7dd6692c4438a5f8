"""The pod of a container, and its replacement by a new pod when it has ended.

A replacement is recorded in the marker ``replacing``, so that the next daemon can finish or undo
it: before any file was moved it is undone, afterwards it is finished.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from ociruntime.base.errors import HostError, ManagerError, RuntimeFailure
from ociruntime.base.fault import fault
from ociruntime.manager.containers import pod_watch
from ociruntime.manager.containers.engine import Engine, log
from ociruntime.manager.containers.pod_status import APP, PodStatus
from ociruntime.manager.containers.records import POD, REPLACING, Record
from ociruntime.pods.store.lock import open_directory
from ociruntime.pods.store.manifest_file import read_runtime_config
from ociruntime.pods.store.pod import Pod
from ociruntime.pods.store.removal import remove_tree

_POD_EVENTS = pod_watch.CLOSE_NOWRITE | pod_watch.MOVE_SELF | pod_watch.DELETE_SELF


class ContainerPod:
    """The pod of a container.

    ``on_change`` is called when the pod or its app may have changed.  The container's lock must be
    held to replace the pod.
    """

    def __init__(
        self, engine: Engine, container_id: str, uuid: str, on_change: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._id = container_id
        self._handle = engine.pod_handle(uuid)
        self._on_change = on_change
        self._watches: list[int] = []

    def open(self) -> Pod | None:
        """Return the open pod; None if it does not exist (any more).  Raises RuntimeFailure."""
        return self._handle.pod()

    def status(self) -> PodStatus:
        return self._handle.status()

    def close(self) -> None:
        """Close the pod and stop watching it."""
        watcher, watches, self._watches = self._engine.watcher, self._watches, []
        for number in watches:
            if watcher is not None:
                watcher.forget(number)
        self._handle.close()

    def watch(self) -> None:
        """Watch the pod, if it exists, for changes.  Raises HostError."""
        pod, watcher = self.open(), self._engine.watcher
        if pod is None or watcher is None:
            return
        path = f"/proc/self/fd/{pod.fd}"
        for directory, events in ((path, _POD_EVENTS), (f"{path}/apps/{APP}", pod_watch.MOVED_TO)):
            self._watches.append(watcher.watch(directory, events, self._on_change))

    async def replace(self, record: Record) -> None:
        """Move the container to a new pod, with its files, unless its pod is running.

        Raises ManagerError; the container is unchanged then.
        """
        engine, store = self._engine, self._engine.store
        await self.settle(record)
        if self.status().pod_state == "running":
            return
        # An earlier replacement may not have removed its old pods yet.
        old = [*self._old_pods(record), record.pod]
        store.write_marker(self._id, REPLACING, {"old": old, "pod": "", "moving": False})
        try:
            try:
                pod = await engine.make_pod(self._id, record.spec, record.image_id)
            except ManagerError:
                # The image may have been garbage-collected: fetch it again by name.
                await engine.remove_new_pod(self._id, record.pod)
                record.image_id = (await engine.fetch_image(record.spec)).id
                pod = await engine.make_pod(self._id, record.spec, record.image_id)
        except RuntimeFailure:
            await self._undo(record)
            raise
        with pod:
            marker = {"old": old, "pod": pod.uuid, "moving": True}
            store.write_marker(self._id, REPLACING, marker)
            fault("replace.before-move")
            await self._finish(record, pod.uuid)

    async def settle(self, record: Record) -> None:
        """Finish or undo an interrupted replacement.  Raises RuntimeFailure."""
        store = self._engine.store
        if not any(store.has(self._id, name) for name in (REPLACING, POD)):
            return
        marker = store.read_marker(self._id, REPLACING)
        uuid = str(marker.get("pod") or "")
        if uuid == record.pod:
            await self._remove_old_pods(record)
        elif marker.get("moving") and self._engine.pod_exists(uuid):
            await self._finish(record, uuid)
        else:
            await self._undo(record)

    def _old_pods(self, record: Record) -> list[str]:
        marker = self._engine.store.read_marker(self._id, REPLACING)
        return [str(uuid) for uuid in marker.get("old", ()) if uuid != record.pod]

    async def _undo(self, record: Record) -> None:
        """Undo a replacement before any file was moved.  Raises RuntimeFailure."""
        store = self._engine.store
        await self._engine.remove_new_pod(self._id, record.pod)
        if older := self._old_pods(record):  # still to be removed, from an earlier replacement
            marker = {"old": older, "pod": record.pod, "moving": False}
            store.write_marker(self._id, REPLACING, marker)
            store.forget(self._id, POD)
        else:
            store.forget(self._id, REPLACING, POD)

    async def _finish(self, record: Record, uuid: str) -> None:
        """Move the files and record the new pod; idempotent.  Raises RuntimeFailure."""
        engine = self._engine
        source, handle = self.open(), engine.pod_handle(uuid)
        try:
            await asyncio.to_thread(_move_files, source, handle.pod())
        except OSError as error:
            # If a user is just removing the old pod by hand, there is nothing left to move.
            if source is not None and source.refresh() not in ("gone", "exited deleting"):
                action = f'move the files of container "{record.name}" to a new pod'
                raise HostError(action, error) from None
        finally:
            handle.close()
        before, record.pod = record.pod, uuid
        try:
            await engine.save(record)
        except BaseException:
            record.pod = before
            raise
        self.close()
        self._handle = handle
        self.watch()
        await self._remove_old_pods(record)

    async def _remove_old_pods(self, record: Record) -> None:
        """Remove the former pods.

        A failure is only logged: an old pod does no harm, and the next daemon tries again.
        """
        store = self._engine.store
        for uuid in self._old_pods(record):
            try:
                await self._engine.remove_pod(uuid)
            except RuntimeFailure as failure:
                log.warning("remove the old pod of container %s: %s", self._id[:12], failure)
                store.forget(self._id, POD)  # the marker now names the container's own pod
                return
        store.forget(self._id, REPLACING, POD)


def _move_files(old: Pod | None, new: Pod | None) -> None:
    """Move the writable layer, volumes and logs to the new pod.  Raises OSError, RuntimeFailure."""
    if old is None or new is None:
        return
    source, target = (f"/proc/self/fd/{pod.fd}" for pod in (old, new))
    overlay = bool(read_runtime_config(old).get("overlay"))
    moved = [f"apps/{APP}/{'upper' if overlay else 'bundle/rootfs'}"]
    for directory in ("volumes", "logs"):
        moved += [f"{directory}/{name}" for name in os.listdir(f"{source}/{directory}")]
    for name in moved:
        if os.path.lexists(f"{source}/{name}"):
            _replace(f"{source}/{name}", f"{target}/{name}")


def _replace(source: str, target: str) -> None:
    parent, _, name = target.rpartition("/")
    fd = open_directory(parent)
    try:
        remove_tree(fd, name)
    finally:
        os.close(fd)
    os.rename(source, target)
