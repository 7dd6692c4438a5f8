"""Services shared by all containers: names, records on disk, events, pods, background tasks."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from ociruntime.base.errors import ManagerError, RuntimeFailure, reason
from ociruntime.images.store.store import Store
from ociruntime.manager.containers import ocipod_requests as requests
from ociruntime.manager.containers.container_names import Names
from ociruntime.manager.containers.container_records import POD, Record, RecordStore
from ociruntime.manager.containers.daemon_settings import Settings
from ociruntime.manager.containers.events import EventBus
from ociruntime.manager.containers.pod_calls import Programs, classified, halt
from ociruntime.manager.containers.pod_status import PodHandle
from ociruntime.manager.containers.pod_watch import Watcher
from ociruntime.manager.containers.stored_image import StoredImage, find_ready
from ociruntime.manager.containers.volumes import Users, Volumes
from ociruntime.pods.store import pod_cgroup
from ociruntime.pods.store.manifest_file import read_object
from ociruntime.pods.store.phases import each_pod, find
from ociruntime.pods.store.pod import Pod

log = logging.getLogger("ocid")
_POD = re.compile(r"\bpod ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")


class SharedServices:
    """The services that all containers share: names, records, events, volumes, programs.

    ``users()`` yields (name, spec) of each container; ``Volumes`` calls it.
    """

    def __init__(self, settings: Settings, users: Users) -> None:
        self.settings = settings
        self.store = RecordStore(settings.root)
        self.volumes = Volumes(self.store.volumes, users)
        self.names = Names()
        self.events = EventBus(f"{settings.root}/events.jsonl")
        self.programs = Programs(settings)
        self.watcher: Watcher | None = None
        self._images: Store | None = None
        self.closing = False  # the daemon is shutting down: start no more background tasks
        self._hierarchies = pod_cgroup.hierarchies()
        self._tasks: set[asyncio.Task[Any]] = set()

    def open(self, on_overflow: Callable[[], None]) -> None:
        """Lock the data directory, read the event log, and create the watcher.

        ``on_overflow`` is called when the kernel has dropped inotify events about pods.  Raises
        ManagerError if another daemon holds the lock or the log cannot be read, HostError if the
        directory cannot be opened or the watcher cannot be created.
        """
        self.store.open()
        try:
            self.events.open()
        except OSError as error:
            raise ManagerError(
                f'open the event log in "{self.settings.root}": {reason(error)}'
            ) from None
        self.watcher = Watcher(on_overflow)
        # Keep a connection to the index of images open: otherwise SQLite would remove the
        # write-ahead log and create it again for each ``ocipod``, which takes 4 ms.
        with suppress(RuntimeFailure):  # ocipod reports the error when it needs the store
            self._images = Store(self.settings.directory)
            _ = self._images.database

    async def end_tasks(self) -> None:
        """Cancel the background tasks and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def close(self) -> None:
        """Close the event log and the watcher; unlock the data directory for another daemon."""
        self.events.close()
        if self.watcher is not None:
            self.watcher.close()
            self.watcher = None
        if self._images is not None:
            self._images.close()
            self._images = None
        self.store.close()

    def begin(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        """Start ``work`` as a background task; log its errors with the prefix ``what``."""

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

    async def save(self, record: Record) -> None:
        """Save a record without blocking the event loop.

        Raises HostError if it cannot be written.
        """
        await asyncio.to_thread(self.store.save, record)

    # --- pods ---

    def pod_handle(self, uuid: str) -> PodHandle:
        return PodHandle(self.settings.directory, uuid, self._hierarchies)

    def pod_exists(self, uuid: str) -> bool:
        """Return whether the pod ``uuid`` exists.

        Raises RuntimeFailure if it exists but cannot be opened.
        """
        handle = self.pod_handle(uuid)
        try:
            return handle.pod() is not None
        finally:
            handle.close()

    def pods_of(self, container_id: str) -> list[str]:
        """Return the UUIDs of the pods with an annotation that contains this container id.

        Raises HostError if the pods cannot be listed.
        """
        annotation = {"name": requests.ANNOTATION, "value": container_id}
        uuids = []
        for pod in each_pod(self.settings.directory):
            with pod, suppress(RuntimeFailure):
                manifest = read_object(pod, "pod") or {}
                if annotation in manifest.get("annotations", ()):
                    uuids.append(pod.uuid)
        return uuids

    async def fetch_image(self, spec: dict[str, Any], *, download: bool = True) -> StoredImage:
        """Fetch the image that ``spec`` names, if necessary, and return it.

        Without ``download``, raises NotFound if the image would come from a registry and is not in
        the store.  Raises ManagerError if fetching fails.
        """
        if not download and spec.get("pull_policy") == "always":
            spec = {**spec, "pull_policy": "missing"}
        settings, options, args = self.settings, self._global_args(spec), requests.fetch_args(spec)
        if stored := requests.stored_args(spec):
            checks = requests.disabled_checks(spec, settings.insecure, settings.client_insecure)
            if image := await asyncio.to_thread(find_ready, settings, spec, checks):
                return image
            # Usually the image is in the store: look it up without queueing behind slow downloads.
            try:
                return StoredImage.parse(await self.programs.ocipod(*options, *stored))
            except ManagerError as failure:
                if stored == args or not download:
                    raise classified(str(failure)) from None
        # A local directory is not downloaded, so it need not queue behind slow downloads.
        run = self.programs.ocipod if "rootfs" in spec else self.programs.fetch
        return StoredImage.parse(await run(*options, *args))

    async def make_pod(
        self, container_id: str, spec: dict[str, Any], image_id: str, *, fill: bool = False
    ) -> Pod:
        """Create a pod with the container's app in it.

        With ``fill``, copies the image's files to the container's empty volumes.  Raises
        ManagerError if the pod cannot be created.  After an error, the caller must remove the
        incomplete pod if the marker file ``pod`` contains a UUID.
        """
        # The container may have been renamed since it was created.
        spec = {**spec, "name": self.names.name_of(container_id)}
        volume = self.volumes.make
        sandbox = requests.pod_request(spec, container_id, image_id, volume, fill=fill)
        sandbox.uuid_file_save = self.store.path(container_id, POD)
        args = (*self._global_args(spec), "app", "sandbox", "--request")
        uuid = (await self.programs.ocipod(*args, request=sandbox)).strip()
        pod = self.pod_handle(uuid).pod()
        if pod is None:
            raise ManagerError(
                f"create container {container_id[:12]}: its new pod {uuid} was removed"
            )
        return pod

    async def run_pod(self, record: Record) -> None:
        """Run the pod of ``record``; the pod must be prepared or have exited.

        Raises ManagerError if the pod cannot be run.  The error message contains the names of other
        containers instead of their pods' UUIDs.
        """
        args = ("run-prepared", "--detach", record.pod)
        try:
            await self.programs.ocipod(*self._global_args(record.spec), *args)
        except ManagerError as failure:
            text = await asyncio.to_thread(self._with_container_names, str(failure), record.pod)
            raise ManagerError(text) from None

    def _with_container_names(self, message: str, own: str) -> str:
        """Replace ``pod UUID`` in an error message of ``ocipod`` with ``container "NAME"``.

        Users of the manager know containers, not pods: after a port conflict, for example, they
        need the name of the other container.  Keeps the UUID of the pod ``own``, and UUIDs of pods
        that belong to no container.
        """

        def named(match: re.Match[str]) -> str:
            name = "" if match[1] == own else self._owner_of(match[1])
            return f'container "{name}"' if name else match[0]

        return _POD.sub(named, message)

    def _owner_of(self, uuid: str) -> str:
        """Return the name of the container that the pod ``uuid`` belongs to; "" if unknown."""
        with suppress(RuntimeFailure):
            pod = find(self.settings.directory, uuid)
            if pod is None:
                return ""
            with pod:
                annotations = (read_object(pod, "pod") or {}).get("annotations", ())
            for annotation in annotations:
                if annotation.get("name") == requests.ANNOTATION:
                    return self.names.name_of(annotation.get("value"))
        return ""

    async def remove_pod(self, uuid: str) -> None:
        """Kill and remove a pod, whatever its state; do nothing if it does not exist.

        Raises RuntimeFailure if it cannot be killed or removed.
        """
        handle = self.pod_handle(uuid)
        try:
            pod = handle.pod()
            if pod is None:
                return
            await halt(self.programs, pod, paused=handle.status().paused)
            try:
                await self.programs.ocipod("rm", uuid)
            except ManagerError:
                if pod.refresh() != "gone":  # another process may have removed it meanwhile
                    raise
        finally:
            handle.close()

    async def remove_new_pod(self, container_id: str, keep: str = "") -> None:
        """Remove the pod with the UUID in a container's marker file ``pod``, unless it is ``keep``.

        Raises RuntimeFailure if the pod cannot be removed.
        """
        uuid = self.store.new_pod(container_id)
        if uuid and uuid != keep:
            await self.remove_pod(uuid)

    def _global_args(self, spec: dict[str, Any]) -> list[str]:
        settings = self.settings
        return requests.global_args(spec, settings.insecure, settings.client_insecure)
