"""Containers: carry out requests such as start and stop, and reconcile records with pods.

The state file of the pod's app is authoritative.  The record stores the last start and the last
exit that a daemon has handled.  So if a container exits while no daemon runs, the next daemon
publishes the event and applies the restart policy.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from ociruntime.base.errors import (
    BadRequest,
    Conflict,
    HostError,
    ManagerError,
    NotFound,
    PodError,
    RuntimeFailure,
    StartFailed,
)
from ociruntime.base.fault_injection import fault
from ociruntime.commandline.signal_names import signal_name
from ociruntime.manager.containers import container_records, update_limits
from ociruntime.manager.containers.attached_clients import CONDITIONS, Clients
from ociruntime.manager.containers.container_names import check_name
from ociruntime.manager.containers.container_pod import ContainerPod
from ociruntime.manager.containers.container_records import Answer, Record
from ociruntime.manager.containers.container_spec import changed_spec, check_signal
from ociruntime.manager.containers.events import described
from ociruntime.manager.containers.ocipod_requests import names_on_networks
from ociruntime.manager.containers.pod_calls import ask
from ociruntime.manager.containers.pod_status import (
    ACTIVE,
    APP,
    CREATED,
    PAUSED,
    REMOVING,
    RESTARTING,
    RUNNING,
    STOPPED,
    UNKNOWN,
    UNSEEN,
    LastRun,
    PodStatus,
)
from ociruntime.manager.containers.restarts import Restarts, should_restart
from ociruntime.manager.containers.shared_services import SharedServices, log
from ociruntime.pods.store import pod as pods
from ociruntime.pods.store.pod import Pod

_FAILED = 125  # exit code if a start fails for a reason that is not in _NOT_EXECUTED
_AT_REST = (CREATED, STOPPED)
_NOT_EXECUTED = (126, 127)  # exit codes for a program that cannot be executed or is not found


class Container:
    """A container in the daemon's memory; its persistent state is on disk.

    Requests that change the container hold ``lock``, except ``kill``.  ``damage`` is the error in a
    corrupt record, "" if the record is intact.  ``on_removed`` is called after the removal.

    A request raises NotFound if the container has been removed, Conflict if the container's status
    does not allow the request, ManagerError (or another RuntimeFailure) if the request fails.  A
    failed ``update`` or ``rename`` changes nothing.  With ``strict``, ``start`` and ``stop`` raise
    Conflict if there is nothing to do.
    """

    def __init__(
        self,
        services: SharedServices,
        id: str,
        record: Record | None,
        on_removed: Callable[[Container], None],
        damage: str = "",
    ) -> None:
        self.id = id
        self.damage = damage
        self.lock = asyncio.Lock()
        self.clients = Clients()
        uuid = record.pod if record is not None else ""
        self.pod = ContainerPod(services, id, uuid, self.schedule_reconcile)
        self._services = services
        self._record = record
        self._on_removed = on_removed
        self._removing = False  # the removal of the container has begun and cannot be cancelled
        self._removed = False
        self._reconcile_scheduled = False
        self._restarts = Restarts(self._begin, self.lock, self._restart_exited)

    @property
    def record(self) -> Record:
        """The container's record.  Raises Conflict if the record is corrupt."""
        if self._record is None:
            raise Conflict(
                f'read the record of container "{self.id}": it is corrupt: {self.damage}',
                f"remove the container: ocictl rm -f {self.id[:12]}",
            )
        return self._record

    @property
    def is_corrupt(self) -> bool:
        return self._record is None

    @property
    def name(self) -> str:
        """The container's name, or the first 12 digits of its id if its record is corrupt."""
        return self._record.name if self._record is not None else self.id[:12]

    @property
    def location(self) -> tuple[str, str, str]:
        """The app's location: (data directory of ``ocipod``, UUID of the pod, name of the app)."""
        return self._services.settings.directory, self.record.pod, APP

    def inspect(self) -> Answer:
        """Return the container's status and configuration, as ``container_records.answer`` does."""
        if self._record is None:
            return container_records.corrupt_answer(self.id, self.damage)
        pending = self._restarts.pending
        answer = container_records.answer(self._record, self.pod.status(), starting=pending)
        return answer | {"status": REMOVING} if self._removing else answer

    def volumes(self) -> tuple[list[Answer], list[str]]:
        """Return (mounts, names of the anonymous volumes).  Raises NotFound or Conflict."""
        self._check_present()
        return self.record.spec.get("volumes") or [], self.record.anonymous_volumes

    def addresses(self) -> dict[str, str]:
        """Return the container's ``{network: IP address}``; {} if it is not running."""
        return self.pod.status().addresses

    def abandon(self) -> None:
        """Prepare for the daemon's shutdown: cancel the restart, fail every pending ``wait``."""
        self._restarts.cancel()
        self.clients.abandon(self._shutting_down())

    # --- requests ---

    async def start(self, *, strict: bool) -> bool:
        """Start the container; return False if it is already running.

        Raises StartFailed if the program cannot be started; for other errors, see ``Container``.
        """
        async with self._held():
            record = self.record
            status = self._status(await self._reconcile())
            if status == RUNNING and not strict:
                return False
            if status not in (CREATED, STOPPED) and (strict or status != RESTARTING):
                hint = "only a created or stopped container can be started"
                raise Conflict(f'start container "{record.name}": its status is "{status}"', hint)
            self._restarts.cancel()
            self._restarts.forget_backoff()
            record.restart_count = 0
            try:
                await self._start()
            except BaseException:
                if record.wanted == STOPPED:
                    await self._services.save(record)
                raise
            return True

    async def prepare(self) -> None:
        """Unless the container is up, run its pod without the app, so that clients can attach."""
        async with self._held():
            await self.pod.wait_for_end()
            if self._status(await self._reconcile()) in (CREATED, STOPPED):
                await self.pod.run(self.record)

    def release(self) -> None:
        """Stop the pod in the background if its app is not running and no client is attached."""
        if self._is_idle():
            self._begin("stop the pod of", self._end_idle_pod())

    async def settled(self) -> None:
        """Reconcile, but first wait up to 75 s for the pod to exit if the app has exited."""
        await self.pod.has_ended()
        async with self.lock:
            if not self._removing:
                await self._reconcile()

    async def stop(self, seconds: float | None, *, strict: bool) -> bool:
        """Stop the container and wait for its exit; return False if it was not running.

        Sends SIGKILL after ``seconds``; None means the container's ``stop_timeout``.
        """
        self._restarts.cancel()
        await self._shorten_stop(self.record.stop_timeout if seconds is None else seconds)
        async with self._held():
            return await self._stop(seconds, strict=strict)

    async def restart(self, seconds: float | None) -> None:
        """Stop the container, if it is running, and start it, as ``stop`` and ``start`` do."""
        self._restarts.cancel()
        async with self._held():
            await self._stop(seconds)
            self.record.restart_count = 0
            self._restarts.forget_backoff()
            await self._start()
            self._publish("restart")

    async def kill(self, signal: str) -> None:
        """Send a signal to the container's init, without taking the container's lock.

        ``signal`` is a name or a number.  Raises BadRequest if it is unknown.
        """
        name = check_signal("signal", signal)
        self._check_present()
        pod = self._active_pod()
        services, record = self._services, self.record
        before = record.wanted
        if name in ("SIGKILL", signal_name(record.stop_signal)) and before != STOPPED:
            record.wanted = STOPPED
            await services.save(record)
        try:
            await services.programs.runtime(pod, "kill", name)
            if name == "SIGKILL" and self.pod.status().paused:
                # On cgroup v1, a frozen process dies only when it is thawed.
                await services.programs.runtime(pod, "resume")
        except RuntimeFailure as failure:
            if record.wanted != before and self.pod.status().pid is not None:
                record.wanted = before
                await services.save(record)
            raise ManagerError(f'kill container "{record.name}": {failure}') from None
        self._publish("kill", signal=name)

    async def pause(self, *, paused: bool) -> None:
        """Pause (``paused``) or resume the container.  Raises Conflict if nothing would change."""
        verb = "pause" if paused else "resume"
        async with self._held():
            await self._reconcile()
            pod = self._active_pod()
            if self.pod.status().paused == paused:
                state = "already paused" if paused else "not paused"
                raise Conflict(f'{verb} container "{self.name}": it is {state}')
            try:
                await self._services.programs.runtime(pod, verb)
            except ManagerError as failure:
                raise ManagerError(f'{verb} container "{self.name}": {failure}') from None
            self._publish("pause" if paused else "unpause")

    async def wait(self, condition: str) -> Answer:
        """Wait for ``condition``; return the latest run's outcome, as ``LastRun.outcome`` does.

        ``condition`` is ``not-running`` (met at once if the container is not up), ``next-exit`` or
        ``removed``.  Raises BadRequest for any other string, ManagerError if the daemon shuts down.
        """
        if condition not in CONDITIONS:
            hint = f"supported: {', '.join(CONDITIONS)}"
            raise BadRequest("condition", f'unknown condition "{condition}"', hint)
        if self._removed:
            raise self._not_found()
        if condition == "not-running" and not self._is_up():
            async with self._held():  # wait for the lock: a stop in progress records the exit first
                if not self.is_corrupt:
                    await self._reconcile()
                if not self._is_up():
                    return self._outcome()
        if self._services.closing:
            raise self._shutting_down()
        return await self.clients.wait(condition)

    async def update(self, changes: object) -> None:
        """Change limits and the restart policy, also while the container is running.

        ``changes`` maps members of a spec to new values.  Raises BadRequest if one is invalid.
        """
        async with self._held():
            pod_status = await self._reconcile()
            runs = self._status(pod_status) in ACTIVE and not pod_status.is_ending
            spec = changed_spec(self.record.spec, changes)
            await update_limits.apply(self._services, self.record, spec, self.pod.open(), runs=runs)
            if self._restarts.pending and not should_restart(self.record):
                self._restarts.cancel()
                self._notify("not-running")
            self._publish("update")

    async def rename(self, name: str) -> None:
        """Rename the container; the new name appears in DNS when the container is started again.

        Raises BadRequest for an invalid name, Conflict if the name is in use.
        """
        check_name("name", name)
        async with self._held():
            record, names, before = self.record, self._services.names, self.name
            names.reserve(name, self.id)
            try:
                record.name = name
                await self._services.save(record)
            except BaseException:
                record.name = before
                names.release(name, self.id)
                raise
            try:
                own = names_on_networks({**record.spec, "name": name}, self.id)
                await asyncio.to_thread(self.pod.set_names, own)
            except RuntimeFailure as failure:
                log.warning('rename container "%s" on its networks: %s', name, failure)
            names.release(before, self.id)
            self._publish("rename", before=before)

    async def remove(self, *, force: bool, volumes: bool = False) -> None:
        """Remove the container.

        With ``force``, kills it first.  With ``volumes``, also removes its anonymous volumes.
        """
        if force:
            self._restarts.cancel()
            await self._shorten_stop(0)
        async with self.lock:
            if not self._removing or self._removed:
                self._check_present()
            if not force and not self._removing:
                status = self._status(self.pod.status())
                if self._restarts.pending and status == STOPPED:
                    status = RESTARTING
                if status in (*ACTIVE, UNKNOWN, RESTARTING):
                    message = f'remove container "{self.name}": its status is "{status}"'
                    raise Conflict(message, "stop the container first, or use --force")
            await self.remove_held(volumes=volumes)

    # --- common parts of requests ---

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[None]:
        """Context manager: hold the container's lock.  Raises the errors of ``_check_present``."""
        async with self.lock:
            self._check_present()
            yield

    def _check_present(self) -> None:
        """Raise NotFound if the container was removed, Conflict if its removal is incomplete."""
        if self._removed:
            raise self._not_found()
        if self._removing:
            hint = f"finish the removal: ocictl rm -f {self.name}"
            raise Conflict(f'use container "{self.name}": its removal is incomplete', hint)

    def _not_found(self) -> NotFound:
        return NotFound(f'no container with name or ID "{self.name}" found')

    def _status(self, pod_status: PodStatus) -> str:
        return pod_status.of_container(self.record.ever_started)

    def _is_up(self) -> bool:
        if self.is_corrupt:
            return False
        status = self._status(self.pod.status())
        return self._restarts.pending or status in (*ACTIVE, RESTARTING)

    def _active_pod(self) -> Pod:
        pod_status = self.pod.status()
        status = self._status(pod_status)
        pod = self.pod.open()
        if status not in ACTIVE or pod is None:
            raise Conflict(f'container "{self.name}" is not running: its status is "{status}"')
        if pod_status.is_ending:
            raise Conflict(f'container "{self.name}" is not running: it has just exited')
        return pod

    async def _start(self) -> None:
        """Start the container; the caller holds its lock.  Raises what ``start`` raises."""
        record = self.record
        pod_status = self.pod.status()
        if pod_status.problem:
            raise ManagerError(f'start container "{record.name}": {pod_status.problem}')
        record.wanted = RUNNING
        await self._services.save(record)
        try:
            await self.pod.run(record)
        except ManagerError as error:
            raise ManagerError(f'start container "{record.name}": {error}') from None
        pod = self.pod.open()
        if pod is None:
            raise ManagerError(f'start container "{record.name}": its pod {record.pod} was removed')
        try:
            await ask(pod, {"op": "start", "app": APP})
        except PodError as error:
            last = self.pod.status().last
            if last is None or last.exit_code is None:
                await self.pod.halt()
                raise ManagerError(f'start container "{record.name}": {error}') from None
            if not self._restarts.in_task():
                record.wanted = STOPPED  # no automatic restart: the client gets the error
            code = last.exit_code if last.exit_code in _NOT_EXECUTED else _FAILED
            await self.pod.wait_for_end()
            await self._reconcile()
            raise StartFailed(f'start container "{record.name}": {error}', code) from None
        await self._reconcile()

    async def _stop(self, seconds: float | None, *, strict: bool = False) -> bool:
        """Stop the container; return False if it was not running.  The caller holds its lock."""
        record = self.record
        status = self._status(await self._reconcile())
        self._restarts.cancel()
        if strict and status != RUNNING:
            hint = "only a running container can be stopped"
            raise Conflict(f'stop container "{record.name}": its status is "{status}"', hint)
        if record.wanted != STOPPED:
            record.wanted = STOPPED
            await self._services.save(record)
        pod = self.pod.open()
        if status not in (*ACTIVE, RESTARTING) or pod is None:
            # The pending restart was cancelled above: wake the clients that wait for its end.
            self._notify("not-running")
            return False
        if status == PAUSED:
            await self._services.programs.runtime(pod, "resume")
        timeout = record.stop_timeout if seconds is None else seconds
        try:
            await ask(pod, {"op": "stop", "app": APP, "seconds": timeout})
        except RuntimeFailure as error:
            if (await self._reconcile()).pid is not None:
                raise ManagerError(f'stop container "{record.name}": {error}') from None
        await self.pod.wait_for_end()
        await self._reconcile()
        return True

    async def _shorten_stop(self, seconds: float) -> None:
        """If another request is stopping the container, shorten the timeout to ``seconds``."""
        pod = self.pod.open() if self.lock.locked() else None
        if pod is not None and self.pod.status().app_state == "stopping":
            with suppress(RuntimeFailure):  # the stop in progress reports the same error
                await ask(pod, {"op": "stop", "app": APP, "seconds": seconds})

    async def remove_held(self, *, volumes: bool = False) -> None:
        """Remove the container; the caller holds its lock.

        Once the marker file ``removing`` exists, the next daemon completes an interrupted removal.
        With ``volumes``, or for ``--rm``, the marker lists the anonymous volumes to remove.
        """
        services, store = self._services, self._services.store
        unwanted = store.marked_volumes(self.id, container_records.REMOVING)
        if not self.is_corrupt and (volumes or self.record.auto_remove):
            unwanted = self.record.anonymous_volumes
        await asyncio.to_thread(store.write_marker, self.id, container_records.REMOVING, unwanted)
        self._removing = True
        if self.is_corrupt:
            pods = await asyncio.to_thread(services.pods_of, self.id)
        else:
            pods = [self.record.pod, *filter(None, [store.new_pod(self.id)])]
        self.pod.close()
        for uuid in dict.fromkeys(pods):
            await services.remove_pod(uuid)
        fault("remove.after-pod")
        self._publish("destroy", at=self.id)
        await services.volumes.remove_with_container(self.name, unwanted)
        await asyncio.to_thread(store.remove, self.id)
        self._removed = True
        self._restarts.cancel()
        self.pod.close()  # a concurrent `list` may have opened it again
        services.names.release(self.name, self.id)
        self._on_removed(self)
        self._notify(*CONDITIONS)

    # --- reconciliation ---

    def schedule_reconcile(self) -> None:
        """Reconcile the container with its pod in the background, once its lock is free."""
        gone = self._removing or self.is_corrupt or self._services.closing
        if not gone and not self._reconcile_scheduled:
            self._reconcile_scheduled = True
            self._begin("reconcile", self._reconcile_later())

    async def _reconcile_later(self) -> None:
        async with self.lock:
            self._reconcile_scheduled = False
            if not self._removing:
                await self._reconcile()

    async def resume(self) -> None:
        """Record what happened while no daemon ran, and apply the restart policy."""
        try:
            async with self.lock:
                pod_status = await self._reconcile()
        except RuntimeFailure as failure:
            log.warning('reconcile container "%s": %s', self.name, failure)
            return
        if not self._restarts.pending and self._status(pod_status) == STOPPED:
            self._follow_up(at_reload=True)
        self.release()

    async def _reconcile(self) -> PodStatus:
        """Record the app's last start and exit; return the pod's status.  The lock must be held."""
        pod_status, record = self.pod.status(), self.record
        if pod_status.problem:
            return pod_status
        before = (record.seen_start, record.seen_end)
        started = pod_status.last.started_at if pod_status.last else None
        if started and started != record.seen_start:
            record.seen_start = started
            record.ever_started = True
            record.last = LastRun(started_at=started)
            self._publish("start", at=started)
        last = record.last
        end = pod_status.end_of_run(None if last.finished_at or last.error else last.started_at)
        ended = bool(end) and end != record.seen_end
        if ended:
            self._record_exit(pod_status, end)
        if (record.seen_start, record.seen_end) != before:
            try:
                await self._services.save(record)
            except HostError as error:
                # Not fatal: waits and restarts still work, and the next daemon reconciles again.
                log.warning('save the record of container "%s": %s', record.name, error)
        if ended:
            self._notify("not-running", "next-exit")
            self._follow_up()
        return pod_status

    def _record_exit(self, pod_status: PodStatus, end: str) -> None:
        record = self.record
        record.seen_end = end
        record.ever_started = True
        if pod_status.app_state == "exited" and pod_status.last is not None:
            record.last = replace(pod_status.last)
        else:
            record.last = LastRun(started_at=record.last.started_at, error=UNSEEN)
        last = record.last
        if last.exit_code is not None and last.error:
            return  # no event: the program could not be executed, so the container never ran
        if last.oom_killed:
            self._publish("oom", at=end)
        facts = {"signal": last.signal, "finished_at": last.finished_at}
        self._publish("die", at=end, exit_code=last.exit_code, **facts)
        if pod_status.stopped_by == "stop":
            self._publish("stop", at=end)

    def _follow_up(self, *, at_reload: bool = False) -> None:
        """React to the exit: remove the container (``--rm``) or apply its restart policy."""
        record = self.record
        if record.auto_remove:
            self._begin("remove", self._remove_exited())
        elif not should_restart(record, at_reload=at_reload):
            return
        elif at_reload:
            self._restarts.at_reload()
        else:
            self._restarts.after_run(record.last.uptime)

    def _is_idle(self) -> bool:
        """Return whether the pod runs, but its app does not, and no client is attached."""
        pod_status = self.pod.status()
        runs = pod_status.pod_state == pods.RUNNING and self._status(pod_status) in _AT_REST
        return runs and not (self.clients.any_attached or self._removing or self._services.closing)

    async def _end_idle_pod(self) -> None:
        async with self.lock:
            if self._is_idle():
                await self.pod.halt()

    async def _remove_exited(self) -> None:
        async with self.lock:
            # A request that held the lock before us may have started the container again.
            if not self._removing and self._status(self.pod.status()) == STOPPED:
                self._restarts.cancel()
                await self.remove_held()

    # --- restarts ---

    async def _restart_exited(self, at_reload: bool) -> None:
        self._check_present()
        record = self.record
        if (await self._reconcile()).of_container(True) != STOPPED:
            return
        if not at_reload:
            record.restart_count += 1
        try:
            await self._start()
        except RuntimeFailure as failure:
            log.warning('restart container "%s": %s', record.name, failure)
            if self._restarts.in_task():
                # The app did not start, so no exit of it will schedule the next attempt.
                self._restarts.cancel()
                if should_restart(record):
                    self._restarts.after_run(0)

    # --- events and notifications ---

    def _begin(self, action: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._services.begin(work, f'{action} container "{self.name}"')

    def _publish(self, kind: str, **attributes: object) -> None:
        self._services.events.publish(kind, self.id, self.name, described(self._record, attributes))

    def _notify(self, *conditions: str) -> None:
        self.clients.notify(conditions, self._outcome())

    def _outcome(self) -> Answer:
        """Return the outcome of the container's latest run, in the form of ``LastRun.outcome``."""
        if self._record is None:
            return {"exit_code": None, "signal": None, "oom_killed": False, "error": self.damage}
        return self._record.last.outcome()

    def _shutting_down(self) -> ManagerError:
        return ManagerError(f'wait for container "{self.name}": the daemon is shutting down')
