"""The state shared by all parts of the manager: store, events, programs, table of containers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ociruntime.base.errors import Conflict, ManagerError, NotFound, RuntimeFailure
from ociruntime.manager.containers import names, watching
from ociruntime.manager.containers.container import Container
from ociruntime.manager.containers.events import EventBus
from ociruntime.manager.containers.pod_calls import Programs
from ociruntime.manager.containers.pod_status import APP, PodHandle
from ociruntime.manager.containers.record_store import RecordStore
from ociruntime.pods.store import pod_cgroup

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ociruntime.manager.containers.record import Record
    from ociruntime.manager.containers.settings import Settings

log = logging.getLogger("ocid")

_POD_EVENTS = watching.CLOSE_NOWRITE | watching.MOVE_SELF | watching.DELETE_SELF


class Engine:
    """The manager's shared state.

    ``on_change`` is called with a container whose pod or app may have changed.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = RecordStore(settings.root)
        self.events = EventBus(f"{settings.root}/events.jsonl")
        self.programs = Programs(settings)
        self.containers: dict[str, Container] = {}
        self.names: dict[str, str] = {}  # name -> container id, including reserved names
        self.hierarchies = pod_cgroup.hierarchies()
        self.on_change: Callable[[Container], None] = _nothing
        self.closing = False
        self._watcher: watching.Watcher | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def open(self) -> None:
        """Lock the data directory and read the event log.  Raises ManagerError, HostError."""
        self.store.open()
        try:
            self.events.open()
        except OSError as error:
            raise ManagerError(f"open the event log of {self.settings.root}: {error}") from None
        self._watcher = watching.Watcher(self._schedule_all)

    def abandon(self) -> None:
        """Start no further work, cancel pending restarts, and fail every pending ``wait``."""
        self.closing = True
        for container in self.containers.values():
            container.cancel_restart()
            container.abandon()

    async def close(self) -> None:
        """Cancel background tasks and release the data directory for the next daemon."""
        self.abandon()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.events.close()
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
        for container in self.containers.values():
            container.pod_handle.close()
        self.store.close()

    def begin(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        """Run ``work`` as a background task; errors are logged with ``what`` before them."""

        async def run() -> None:
            try:
                await work
            except RuntimeFailure as failure:
                log.warning("%s: %s", what, failure)
            except Exception:
                log.exception("%s", what)

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- the table ---

    def reserve(self, name: str, container_id: str) -> None:
        """Reserve a name for a container.  Raises Conflict if it is in use."""
        if name in self.names:
            used_by = self.names[name][:12]
            raise Conflict(f'the container name "{name}" is already in use by "{used_by}"')
        self.names[name] = container_id

    def release(self, name: str, container_id: str) -> None:
        if self.names.get(name) == container_id:
            del self.names[name]

    def new(self, container_id: str, record: Record | None, damage: str = "") -> Container:
        """Add a container to the table."""
        uuid = record.pod if record is not None else ""
        container = Container(container_id, record, self.pod_handle(uuid), damage)
        self.containers[container_id] = container
        if record is not None:
            self.names[record.name] = container_id
        return container

    def pod_handle(self, uuid: str) -> PodHandle:
        return PodHandle(self.settings.directory, uuid, self.hierarchies)

    def find(self, ref: str) -> Container:
        """Return the container that ``ref`` means.  Raises NotFound."""
        known = {name: one for name, one in self.names.items() if one in self.containers}
        return self.containers[names.resolve(ref, self.containers, known)]

    def forget(self, container: Container) -> None:
        """Drop a removed container from the table."""
        container.removed = True
        container.cancel_restart()
        self.unwatch(container)
        container.pod_handle.close()
        self.containers.pop(container.id, None)
        self.release(container.name, container.id)

    async def save(self, record: Record) -> None:
        """Save a record without blocking the event loop.  Raises HostError."""
        await asyncio.to_thread(self.store.save, record)

    # --- watching ---

    def watch(self, container: Container) -> None:
        """Watch the container's pod, if it exists, for changes.  Raises HostError."""
        self.unwatch(container)
        pod = container.pod_handle.pod()
        if pod is None or self._watcher is None:
            return
        path = f"/proc/self/fd/{pod.fd}"

        def changed() -> None:
            self.on_change(container)

        container.watches = [self._watcher.watch(path, _POD_EVENTS, changed)]
        container.watches.append(
            self._watcher.watch(f"{path}/apps/{APP}", watching.MOVED_TO, changed)
        )

    def unwatch(self, container: Container) -> None:
        watches, container.watches = container.watches, []
        for number in watches:
            if self._watcher is not None:
                self._watcher.forget(number)

    def _schedule_all(self) -> None:
        for container in list(self.containers.values()):
            self.on_change(container)


def still_there(container: Container) -> None:
    """Check, once the lock is held, that the container was not removed meanwhile.

    Raises NotFound, or Conflict if a removal has begun and failed.
    """
    if container.removed:
        raise NotFound(f'no container with name or ID "{container.name}" found')
    if container.removing:
        hint = "remove it again"
        raise Conflict(f'container "{container.name}": it is partly removed', hint)


def _nothing(container: Container) -> None:
    del container
