"""The manager of containers: load, create, find, list and prune them.

``container.py`` carries out the requests to a single container.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ociruntime.base.errors import (
    BadRequest,
    Conflict,
    ManagerError,
    NotFound,
    RuntimeFailure,
)
from ociruntime.base.fault_injection import fault
from ociruntime.base.json_files import now
from ociruntime.manager.containers import container_names, container_records
from ociruntime.manager.containers.container import Container
from ociruntime.manager.containers.container_filters import FILTERS
from ociruntime.manager.containers.container_mounts import Mounts, add_image, of_request
from ociruntime.manager.containers.container_records import Answer, Record
from ociruntime.manager.containers.container_spec import check_spec
from ociruntime.manager.containers.daemon_settings import Settings
from ociruntime.manager.containers.events import EventBus, described
from ociruntime.manager.containers.list_filters import check_filters, passes
from ociruntime.manager.containers.networks import Networks, User, publish
from ociruntime.manager.containers.pod_calls import Programs
from ociruntime.manager.containers.pod_status import (
    ACTIVE,
    APP,
    CREATED,
    RESTARTING,
    STOPPED,
    PodHandle,
)
from ociruntime.manager.containers.shared_services import SharedServices, log
from ociruntime.manager.containers.volumes import Volumes
from ociruntime.pods.manifest.build_manifest import app_entry, ports_of
from ociruntime.pods.store.manifest_file import read_manifest


class Manager:
    """The containers below ``settings.root``: their creation, lookup, listing and pruning."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._services = SharedServices(settings, self._volume_users)
        self.networks = Networks(settings, self._network_users)
        self._containers: dict[str, Container] = {}
        self._incomplete: dict[str, dict[str, Any]] = {}  # specs of containers being created

    @property
    def events(self) -> EventBus:
        return self._services.events

    @property
    def programs(self) -> Programs:
        """The object that runs ``ocipod`` and the OCI runtimes for all containers."""
        return self._services.programs

    @property
    def volumes(self) -> Volumes:
        """The volumes of all containers."""
        return self._services.volumes

    def _volume_users(self) -> Iterator[tuple[str, dict[str, Any] | None]]:
        for container in self._containers.values():
            yield container.name, None if container.is_corrupt else container.record.spec
        for container_id, spec in self._incomplete.items():
            yield spec.get("name") or container_id[:12], spec

    def _network_users(self) -> Iterator[User]:
        for container in self._containers.values():
            if container.is_corrupt:
                yield User(container.name, None, "", dict)
            else:
                yield User(
                    container.name, container.record.spec, container.record.pod, container.addresses
                )
        for container_id, spec in self._incomplete.items():
            yield User(spec.get("name") or container_id[:12], spec, "", dict)

    # --- the daemon's start and end ---

    async def open(self) -> None:
        """Lock the data directory; load and reconcile the existing containers.

        Leaves running containers alone, rolls back unfinished creations, and completes unfinished
        removals.  Keeps a container whose record is corrupt.  Logs a failure to load a container.

        Raises ManagerError if another daemon holds the lock or the event log cannot be read,
        HostError if the directory cannot be opened or inotify(7) fails.
        """
        self._services.open(on_overflow=self._reconcile_all)
        await asyncio.to_thread(self._settle_volumes)
        # Complete removals last: the volumes in use are known once all containers are loaded.
        store = self._services.store
        for container_id in sorted(store.ids(), key=store.is_to_be_removed):
            try:
                container = await self._load(container_id)
            except RuntimeFailure as failure:
                log.warning('load container "%s": %s', container_id[:12], failure)
                continue
            if container is not None and not container.is_corrupt:
                await container.resume()

    async def _load(self, container_id: str) -> Container | None:
        store = self._services.store
        if store.has(container_id, container_records.CREATING):
            log.info('container "%s": rolling back its unfinished creation', container_id[:12])
            await self._roll_back(container_id)
            return None
        if store.is_empty(container_id):
            store.remove(container_id)
            return None
        try:
            record, damage = store.load(container_id), ""
        except ManagerError as error:
            record, damage = None, str(error)
            log.warning('container "%s": its record is corrupt: %s', container_id[:12], damage)
        container = self._add(container_id, record, damage)
        # Before opening the pod: the pod of a container being removed may be incomplete.
        if store.has(container_id, container_records.REMOVING):
            await container.remove_held()
            return None
        if not container.is_corrupt:
            await container.pod.settle(container.record)
            container.pod.watch()
        return container

    def _settle_volumes(self) -> None:
        try:
            self.volumes.settle()
        except RuntimeFailure as failure:
            log.warning("%s", failure)

    def _reconcile_all(self) -> None:
        for container in list(self._containers.values()):
            container.schedule_reconcile()

    def abandon(self) -> None:
        """Begin the shutdown: start no more background tasks, and fail every pending ``wait``."""
        self._services.closing = True
        for container in self._containers.values():
            container.abandon()

    async def close(self) -> None:
        """Cancel background tasks and unlock the data directory; containers keep running."""
        self.abandon()
        await self._services.end_tasks()
        for container in self._containers.values():
            container.pod.close()
        self._services.close()

    # --- the table ---

    def _add(self, container_id: str, record: Record | None, damage: str = "") -> Container:
        container = Container(self._services, container_id, record, self._drop, damage)
        self._containers[container_id] = container
        if record is not None:
            self._services.names.add(record.name, container_id)
        return container

    def _drop(self, container: Container) -> None:
        self._containers.pop(container.id, None)

    @property
    def containers(self) -> list[Container]:
        """All containers."""
        return [*self._containers.values()]

    def find(self, ref: str) -> Container:
        """Return the container with the id, unambiguous id prefix or name ``ref``.

        Raises NotFound if no container matches, or if several do.
        """
        return self._containers[self._services.names.resolve(ref, self._containers)]

    async def create(self, request: object, *, download: bool = True) -> Answer:
        """Create a container from a request (a spec); return what ``inspect`` returns.

        The member ``warnings`` of the result, if present, lists settings of the image that have no
        effect.  Without ``download``, raises NotFound if the image is not in the store.  Raises
        BadRequest with the JSON path of an invalid member, Forbidden for a security check that
        clients may not disable, Conflict if the name is in use, ManagerError or HostError for other
        errors.  After an error, no part of the container remains.
        """
        spec = check_spec(request)
        self.settings.check_insecure(spec.get("insecure") or ())
        rootfs = spec.get("rootfs")
        # In a thread: a network file system may hang.
        if rootfs is not None and not await asyncio.to_thread(os.path.isdir, rootfs):
            raise BadRequest("rootfs", f'directory "{rootfs}" not found on this host')
        self.networks.check(spec)
        services = self._services
        container_id = container_names.new_id()
        name = spec.get("name") or container_names.new_name(services.names)
        services.names.reserve(name, container_id)
        try:
            mounts = of_request(spec, lambda ref: self.find(ref).volumes())
            # From here on, the new container's volumes count as used, so nobody removes them.
            self._incomplete[container_id] = {**spec, "name": name, "volumes": mounts.volumes}
            image = await services.fetch_image(spec, download=download)
            add_image(mounts, image.volumes)
            if spec.get("publish_all"):
                spec = await self._with_published_ports(spec, image.id)
            await asyncio.to_thread(services.store.begin, container_id, mounts.generated)
            try:
                container = await self._create(spec, mounts, container_id, name, image.id)
            except BaseException:
                if incomplete := self._containers.pop(container_id, None):
                    incomplete.pod.close()
                await self._roll_back(container_id, name)
                raise
        except BaseException:
            services.names.release(name, container_id)
            raise
        finally:
            self._incomplete.pop(container_id, None)
        warnings = _warnings(container)
        return container.inspect() | ({"warnings": warnings} if warnings else {})

    async def _create(
        self, spec: dict[str, Any], mounts: Mounts, container_id: str, name: str, image_id: str
    ) -> Container:
        services = self._services
        fault("create.after-intent")
        if mounts.volumes:
            spec = {**spec, "volumes": mounts.volumes}
        for volume in mounts.generated:
            services.volumes.make(volume, anonymous=True)
        with await services.make_pod(container_id, spec, image_id, fill=True) as pod:
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
                anonymous_volumes=mounts.anonymous,
            )
        fault("create.after-bundle")
        await services.save(record)
        container = self._add(container_id, record)
        container.pod.watch()
        attributes = described(record, {"at": container_id})
        services.events.publish("create", container_id, name, attributes)
        # The commit point: if the daemon is killed after this, the container is complete.
        services.store.forget(container_id, container_records.CREATING, container_records.POD)
        return container

    async def _with_published_ports(self, spec: dict[str, Any], image_id: str) -> dict[str, Any]:
        """Return ``spec`` with a published host port for each port that the image exposes.

        Raises the errors of ``networks.publish``, ManagerError if the image cannot be inspected.
        """
        out = await self.programs.ocipod("image", "inspect", "--", image_id)
        exposed = ports_of(json.loads(out)[0].get("config") or {})
        taken = [
            port for user in self._network_users() for port in (user.spec or {}).get("ports", ())
        ]
        return spec | {"ports": publish(exposed, spec.get("ports") or [], taken)}

    async def _roll_back(self, container_id: str, name: str = "") -> None:
        """Remove the pod, volumes and directory of an unfinished creation.

        Raises RuntimeFailure if one of them cannot be removed; the next daemon tries again.
        """
        services = self._services
        await services.remove_new_pod(container_id)
        volumes = services.store.marked_volumes(container_id, container_records.CREATING)
        await self.volumes.remove_with_container(self._incomplete_name(container_id), volumes)
        if services.events.has("create", container_id, container_id):
            services.events.publish("destroy", container_id, name, {"at": container_id})
        await asyncio.to_thread(services.store.remove, container_id)

    def _incomplete_name(self, container_id: str) -> str:
        """Return the name of a container that is being created; "" if it is unknown."""
        return str(self._incomplete.get(container_id, {}).get("name") or "")

    async def prune(self) -> tuple[list[str], int]:
        """Remove all containers with the status ``created`` or ``stopped``.

        Returns (ids of the removed containers, bytes of disk space freed).
        """
        removed, freed = [], 0
        for container in list(self._containers.values()):
            if container.inspect()["status"] not in (CREATED, STOPPED):
                continue
            size = await asyncio.to_thread(self._measured, container, PodHandle.size)
            try:
                await container.remove(force=False)
            except (Conflict, NotFound):
                continue
            removed.append(container.id)
            freed += size
        return removed, freed

    def size(self, container: Container) -> int:
        """Return the disk usage of a container's pod in bytes; 0 if it cannot be read."""
        return 0 if container.is_corrupt else self._measured(container, PodHandle.size)

    def _measured(self, container: Container, measure: Callable[[PodHandle], int]) -> int:
        handle = self._services.pod_handle(container.record.pod)
        try:
            return measure(handle)
        finally:
            handle.close()

    async def add_sizes(self, answers: list[Answer]) -> None:
        """Add the member ``size`` to each of ``answers``, the result of ``list``.

        ``size`` is the number of bytes that the container has written to its root filesystem; None
        if the container no longer exists or its record is corrupt.
        """
        for answer in answers:
            container = self._containers.get(answer["id"])
            answer["size"] = None
            if container is not None and not container.is_corrupt:
                answer["size"] = await asyncio.to_thread(
                    self._measured, container, PodHandle.written
                )

    def list(
        self, *, all: bool = True, filters: Mapping[str, list[str]] | None = None
    ) -> list[Answer]:
        """Return the containers, newest first; without ``all``, only those that are up.

        A container is up if it is running, paused or restarting.  ``filters`` maps the name of a
        filter to its values: ``id`` (prefix), ``name`` (substring), ``status`` (also ``exited`` for
        stopped and ``up`` for running, as ``ps`` prints them), ``image`` (or root filesystem),
        ``label`` (``NAME`` or ``NAME=VALUE``), ``exited`` (exit code of a stopped container),
        ``network``.  A container must match at least one value of each filter.  Raises BadRequest
        for an unknown filter or an invalid value.
        """
        filters = filters or {}
        check_filters(filters, FILTERS)
        answers = [
            answer
            for answer in (container.inspect() for container in self._containers.values())
            if (all or answer["status"] in (*ACTIVE, RESTARTING))
            and passes(answer, filters, FILTERS)
        ]
        return sorted(answers, key=lambda answer: answer["created_at"] or "", reverse=True)


def _warnings(container: Container) -> list[str]:
    """Return warnings about settings of the container's image that have no effect."""
    pod = container.pod.open()
    if pod is None or not app_entry(read_manifest(pod), APP)["image"].get("healthcheck"):
        return []
    return ["the image's HEALTHCHECK is ignored: health checks are not supported"]
