"""What all parts of the manager share: its directory, its programs, the table of containers."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ociruntime.base.errors import Conflict, ManagerError, NotFound, RuntimeFailure
from ociruntime.manager.containers import names, watching
from ociruntime.manager.containers.container import Container
from ociruntime.manager.containers.events import EventBus
from ociruntime.manager.containers.pod_calls import Programs
from ociruntime.manager.containers.pod_status import APP, Place
from ociruntime.manager.containers.record_store import RecordStore
from ociruntime.pods.store import pod_cgroup

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ociruntime.manager.containers.record import Record
    from ociruntime.manager.containers.settings import Settings

log = logging.getLogger("ocid")

_POD_EVENTS = watching.CLOSE_NOWRITE | watching.MOVE_SELF | watching.DELETE_SELF


class Engine:
    """``on_change`` is called with a container whose pod or app may have changed."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = RecordStore(settings.root)
        self.events = EventBus(f"{settings.root}/events.jsonl")
        self.programs = Programs(settings)
        self.containers: dict[str, Container] = {}
        self.names: dict[str, str] = {}  # also those that are only reserved
        self.hierarchies = pod_cgroup.hierarchies()
        self.on_change: Callable[[Container], None] = _nothing
        self.closing = False
        self._watcher: watching.Watcher | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def open(self) -> None:
        """Raises ManagerError, HostError."""
        self.store.open()
        try:
            self.events.open()
        except OSError as error:
            raise ManagerError(f"open the events of {self.settings.root}: {error}") from None
        self._watcher = watching.Watcher(self._look_at_all)

    def abandon(self) -> None:
        """Nothing is begun any more, and nobody who waits is made to wait for the end of that."""
        self.closing = True
        for container in self.containers.values():
            container.cancel_restart()
            container.abandon()

    async def close(self) -> None:
        """Nothing of the daemon is left in the way of the next one."""
        self.abandon()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.events.close()
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
        for container in self.containers.values():
            container.place.close()
        self.store.close()

    def begin(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        """Something that nobody waits for; its errors are logged."""

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
        """Raises Conflict: the name is in use."""
        if name in self.names:
            raise Conflict(f'the name "{name}" is that of container {self.names[name][:12]}')
        self.names[name] = container_id

    def release(self, name: str, container_id: str) -> None:
        if self.names.get(name) == container_id:
            del self.names[name]

    def new(self, container_id: str, record: Record | None, damage: str = "") -> Container:
        """Puts a container into the table."""
        uuid = record.pod if record is not None else ""
        container = Container(container_id, record, self.place(uuid), damage)
        self.containers[container_id] = container
        if record is not None:
            self.names[record.name] = container_id
        return container

    def place(self, uuid: str) -> Place:
        return Place(self.settings.directory, uuid, self.hierarchies)

    def find(self, ref: str) -> Container:
        """Raises NotFound."""
        known = {name: one for name, one in self.names.items() if one in self.containers}
        return self.containers[names.resolve(ref, self.containers, known)]

    def forget(self, container: Container) -> None:
        """It is no more."""
        container.removed = True
        container.cancel_restart()
        self.unwatch(container)
        container.place.close()
        self.containers.pop(container.id, None)
        self.release(container.name, container.id)

    async def save(self, record: Record) -> None:
        """Raises HostError."""
        await asyncio.to_thread(self.store.save, record)

    # --- watching ---

    def watch(self, container: Container) -> None:
        """From now on changes of its pod, if there is one, are told.  Raises HostError."""
        self.unwatch(container)
        pod = container.place.pod()
        if pod is None or self._watcher is None:
            return
        place = f"/proc/self/fd/{pod.fd}"

        def changed() -> None:
            self.on_change(container)

        container.watches = [self._watcher.watch(place, _POD_EVENTS, changed)]
        container.watches.append(
            self._watcher.watch(f"{place}/apps/{APP}", watching.MOVED_TO, changed)
        )

    def unwatch(self, container: Container) -> None:
        watches, container.watches = container.watches, []
        for number in watches:
            if self._watcher is not None:
                self._watcher.forget(number)

    def _look_at_all(self) -> None:
        for container in list(self.containers.values()):
            self.on_change(container)


def still_there(container: Container) -> None:
    """To be asked once its lock is had.  Raises NotFound; Conflict: half of it is gone."""
    if container.removed:
        raise NotFound(f'there is no container "{container.name}"')
    if container.removing:
        raise Conflict(f"container {container.name} is removing", "remove it once more")


def _nothing(container: Container) -> None:
    del container
