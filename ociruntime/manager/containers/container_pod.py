"""The pod of a container: run it, watch it, kill it, and replace it if it was removed.

The pod runs from the container's start to the container's exit; a pod that does not run has no
processes, networks or ports.  If the pod was removed, a new pod replaces it.  The marker file
``pod`` contains the new pod's UUID until this UUID is in the container's record.  If the daemon is
killed before that, the next daemon removes the new pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ociruntime.base.errors import ManagerError, RuntimeFailure
from ociruntime.base.fault_injection import fault
from ociruntime.manager.containers import pod_watch
from ociruntime.manager.containers.container_records import POD, Record
from ociruntime.manager.containers.pod_calls import halt
from ociruntime.manager.containers.pod_status import APP, PodStatus
from ociruntime.manager.containers.shared_services import SharedServices, log
from ociruntime.pods.store.manifest_file import read_runtime_config, write_runtime_config
from ociruntime.pods.store.pod import EXITED, PREPARED, RUNNING, Pod

_POD_EVENTS = pod_watch.CLOSE_NOWRITE | pod_watch.MOVE_SELF | pod_watch.DELETE_SELF
_END_TIMEOUT = 75.0  # seconds for a pod to end; a CNI plugin has 60 for DEL
_POLL_INTERVAL = 0.01  # seconds
_RECHECKS = (0.1, 1.0, 5.0)  # seconds


class ContainerPod:
    """The pod of one container.

    ``on_change`` is called when the state of the pod or of its app may have changed.  Callers must
    hold the container's lock to run or replace the pod.
    """

    def __init__(
        self, services: SharedServices, container_id: str, uuid: str, on_change: Callable[[], None]
    ) -> None:
        self._services = services
        self._id = container_id
        self._handle = services.pod_handle(uuid)
        self._on_change = on_change
        self._watches: list[int] = []

    def open(self) -> Pod | None:
        """Open and return the pod; None if it does not exist.

        Raises RuntimeFailure if it cannot be opened.
        """
        return self._handle.pod()

    def status(self) -> PodStatus:
        """Return a snapshot of the status of the pod and its app; never raises an exception."""
        return self._handle.status()

    def close(self) -> None:
        """Close the pod and stop watching it."""
        watcher, watches, self._watches = self._services.watcher, self._watches, []
        for number in watches:
            if watcher is not None:
                watcher.forget(number)
        self._handle.close()

    def watch(self) -> None:
        """Watch the pod with inotify(7): each change calls ``on_change``.

        Raises HostError if the kernel refuses the watch.
        """
        pod, watcher = self.open(), self._services.watcher
        if pod is None or watcher is None:
            return
        path, app = f"/proc/self/fd/{pod.fd}", f"/proc/self/fd/{pod.fd}/apps/{APP}"
        self._watches.append(watcher.watch(path, _POD_EVENTS, self._directory_changed))
        self._watches.append(watcher.watch(app, pod_watch.MOVED_TO, self._on_change))

    def _directory_changed(self) -> None:
        """Call ``on_change`` now, and again after each of ``_RECHECKS``.

        The kernel reports that the pod's lock holder has closed the directory before it releases
        the lock: on a busy machine, the pod still looks running when we get the event, and no other
        event follows.
        """
        self._on_change()
        loop = asyncio.get_running_loop()
        for seconds in _RECHECKS:
            loop.call_later(seconds, self._on_change)

    async def run(self, record: Record) -> None:
        """Run the pod, with its networks, unless it is running.

        If the pod was removed, a new pod replaces it.  Raises ManagerError if the pod cannot be run
        or replaced.
        """
        await self.wait_for_end()
        state = self.status().pod_state
        if state == RUNNING:
            return
        if state not in (PREPARED, EXITED):
            await self._renew(record)
        await self._services.run_pod(record)

    async def wait_for_end(self) -> None:
        """If the app has exited, wait for the pod to exit too; kill the pod after 75 seconds.

        Returns at once if the app has not exited.  Raises RuntimeFailure if the pod cannot be
        killed.
        """
        if not await self.has_ended():
            await self.halt()

    async def has_ended(self) -> bool:
        """If the app has exited, wait for the pod to exit too; return False after 75 seconds.

        Returns True once the pod has exited, or at once if the app has not exited.
        """
        deadline = asyncio.get_running_loop().time() + _END_TIMEOUT
        while self.status().is_ending:
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(_POLL_INTERVAL)
        return True

    async def halt(self) -> None:
        """Kill the pod, if it is running, and wait for its exit.

        Raises RuntimeFailure if the pod cannot be killed.
        """
        if pod := self.open():
            await halt(self._services.programs, pod)

    def set_names(self, names: list[str]) -> None:
        """Store the pod's DNS names on its networks; they take effect at the pod's next run.

        ``names`` is the result of ``ocipod_requests.names_on_networks``.  Raises RuntimeFailure if
        they cannot be stored.
        """
        if pod := self.open():
            write_runtime_config(pod, read_runtime_config(pod) | {"net_names": names})

    async def settle(self, record: Record) -> None:
        """If the marker file ``pod`` exists, remove the pod with the UUID in it, then the file.

        If that is the pod in ``record``, removes only the file.  Raises RuntimeFailure if the pod
        cannot be removed.
        """
        store = self._services.store
        if store.has(self._id, POD):
            await self._services.remove_new_pod(self._id, record.pod)
            store.forget(self._id, POD)

    async def _renew(self, record: Record) -> None:
        """Replace the pod with a new pod; the old pod's files are lost.

        Raises ManagerError if the new pod cannot be created.
        """
        services = self._services
        before = record.pod
        await self.settle(record)
        try:
            try:
                pod = await services.make_pod(self._id, record.spec, record.image_id)
            except ManagerError:
                # The image may have been garbage-collected: fetch it again by name.
                await self.settle(record)
                record.image_id = (await services.fetch_image(record.spec)).id
                pod = await services.make_pod(self._id, record.spec, record.image_id)
            with pod:
                fault("renew.before-save")
                record.pod = pod.uuid
                await services.save(record)
        except BaseException:
            record.pod = before
            with suppress(RuntimeFailure):  # the next daemon removes the new pod
                await self.settle(record)
            raise
        services.store.forget(self._id, POD)
        self.close()
        self._handle = services.pod_handle(record.pod)
        self.watch()
        try:
            await services.remove_pod(before)
        except RuntimeFailure as failure:
            log.warning("remove the old pod of container %s: %s", self._id[:12], failure)
