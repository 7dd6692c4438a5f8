"""The manager's public interface: one method per request of a client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ociruntime.base.errors import BadRequest, Conflict, ManagerError, NotFound, UsageError
from ociruntime.manager.containers import (
    creation,
    lifecycle,
    names,
    record,
    removal,
    running,
    states,
)
from ociruntime.manager.containers.engine import Engine, still_there
from ociruntime.manager.containers.pod_status import APP, NO_POD
from ociruntime.manager.containers.reload import reload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from ociruntime.manager.containers.container import Container
    from ociruntime.manager.containers.events import EventBus
    from ociruntime.manager.containers.pod_calls import Programs
    from ociruntime.manager.containers.record import Answer
    from ociruntime.manager.containers.settings import Settings

    Argv = list[str]

CONDITIONS = ("not-running", "next-exit", "removed")


class Manager:
    """The containers below ``settings.root``; ``ref`` is an id, an unambiguous prefix, or a name.

    Every method raises NotFound if no container matches ``ref``, Conflict if the container's state
    forbids the request, and ManagerError (or another RuntimeFailure) if the request fails; a failed
    request changes nothing.  With ``strict``, a request with nothing to do raises Conflict, too.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._engine = Engine(settings)

    @property
    def events(self) -> EventBus:
        return self._engine.events

    async def open(self) -> None:
        """Lock the data directory and load the existing containers.

        Raises ManagerError if another daemon holds the lock, HostError.
        """
        engine = self._engine
        engine.on_change = lambda container: lifecycle.schedule_reconcile(engine, container)
        engine.open()
        await reload(engine)

    def abandon(self) -> None:
        """Start no further work, and fail every pending ``wait``: the manager is shutting down."""
        self._engine.abandon()

    async def close(self) -> None:
        """Cancel background work and release the data directory; containers keep running."""
        await self._engine.close()

    async def create(self, spec: dict[str, Any]) -> Answer:
        """Create a container and return its status.  Raises BadRequest with the JSON path."""
        return self._answer(await creation.create(self._engine, spec))

    async def start(self, ref: str, *, strict: bool = False) -> bool:
        """Start a container; return False if it was running already.

        Raises StartFailed, which carries the exit code.  ``strict``: raise Conflict unless the
        container is created or stopped.
        """
        return await lifecycle.start(self._engine, self._engine.find(ref), strict=strict)

    async def prepare(self, ref: str) -> None:
        """Make sure that the container has a running pod, without starting the container."""
        await lifecycle.prepare(self._engine, self._engine.find(ref))

    async def stop(self, ref: str, seconds: float | None = None, *, strict: bool = False) -> bool:
        """Stop a container and wait for its end; return False if it was not running.

        ``seconds`` is the time between the stop signal and SIGKILL, by default the container's own.
        ``strict``: raise Conflict unless the container is running.
        """
        container = self._engine.find(ref)
        return await lifecycle.stop(
            self._engine, container, _checked_timeout(seconds), strict=strict
        )

    async def kill(self, ref: str, signal: str = "SIGKILL") -> None:
        """Send a signal (name or number) to the container's init; it must be running."""
        try:
            await running.kill(self._engine, self._engine.find(ref), signal)
        except UsageError as error:
            raise BadRequest("signal", error.message, error.hint) from None

    async def restart(self, ref: str, seconds: float | None = None) -> None:
        """Stop and start a container."""
        await lifecycle.restart(self._engine, self._engine.find(ref), _checked_timeout(seconds))

    async def pause(self, ref: str) -> None:
        """Freeze the container's processes.  Raises Conflict if they are frozen already."""
        await running.pause(self._engine, self._engine.find(ref), paused=True)

    async def unpause(self, ref: str) -> None:
        """Thaw the container's processes.  Raises Conflict unless the container is paused."""
        await running.pause(self._engine, self._engine.find(ref), paused=False)

    async def wait(self, ref: str, condition: str = "not-running") -> Answer:
        """Wait and return ``{"exit_code", "signal", "oom_killed", "error", "finished_at"}``.

        ``condition`` is ``not-running`` (returns at once if the container is not running),
        ``next-exit`` or ``removed``.  Raises ManagerError if the manager shuts down meanwhile.
        """
        if condition not in CONDITIONS:
            raise BadRequest("condition", f'unknown value "{condition}"', ", ".join(CONDITIONS))
        container = self._engine.find(ref)
        if condition == "not-running" and not self._is_up(container):
            async with container.lock:  # a stop in progress has recorded the exit by then
                still_there(container)
                if not container.is_corrupt:
                    await lifecycle.reconcile(self._engine, container)
                if not self._is_up(container):
                    return removal.facts_of(container)
        if self._engine.closing:
            raise ManagerError(f'wait for container "{ref}": the daemon is shutting down')
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        entry = (condition, future)
        container.waiters.append(entry)
        try:
            return await future
        finally:
            if entry in container.waiters:
                container.waiters.remove(entry)

    def _is_up(self, container: Container) -> bool:
        if container.is_corrupt:
            return False
        pod_status = container.pod_status()
        return container.restart is not None or states.status_of(
            pod_status, container.record.ever_started
        ) in (*states.ACTIVE, states.RESTARTING)

    async def rename(self, ref: str, name: str) -> None:
        """Rename a container.  Raises BadRequest (invalid name), Conflict (name in use)."""
        names.check_name(name, "name")
        engine = self._engine
        container = engine.find(ref)
        async with container.lock:
            still_there(container)
            before = container.record.name
            engine.reserve(name, container.id)
            try:
                container.record.name = name
                await engine.save(container.record)
            except BaseException:
                container.record.name = before
                engine.release(name, container.id)
                raise
            engine.release(before, container.id)
            engine.events.publish("rename", container.id, name, {"before": before})

    async def remove(self, ref: str, *, force: bool = False) -> None:
        """Remove a container and its files; ``force`` kills a running one first."""
        container = self._engine.find(ref)
        if force and not container.is_corrupt:
            container.cancel_restart()
            await lifecycle.hasten(container, 0)
        await removal.remove(self._engine, container, force=force)

    async def prune(self) -> list[str]:
        """Remove every created or stopped container; return the ids of the removed ones."""
        removed = []
        for container in list(self._engine.containers.values()):
            try:
                await removal.remove(self._engine, container, force=False)
            except (Conflict, NotFound):
                continue
            removed.append(container.id)
        return removed

    def get(self, ref: str) -> Answer:
        """Return a container's status and configuration, as ``inspect`` shows them."""
        return self._answer(self._engine.find(ref))

    def list(
        self, *, all: bool = True, filters: Mapping[str, list[str]] | None = None
    ) -> list[Answer]:
        """Return the containers, newest first; without ``all`` only running and paused ones.

        ``filters``: ``id`` (prefix), ``name`` (substring), ``status``, ``image``, ``label``
        (``NAME`` or ``NAME=VALUE``), ``exited`` (exit code).  A container must match one value of
        every filter.  Raises BadRequest.
        """
        tests = _tests(filters or {})
        found = [self._answer(container) for container in self._engine.containers.values()]
        shown = [
            one
            for one in found
            if (all or one["status"] in (*states.ACTIVE, states.RESTARTING)) and _passes(one, tests)
        ]
        return sorted(shown, key=lambda one: one["created_at"] or "", reverse=True)

    def find(self, ref: str) -> str:
        """Return the container's full id."""
        return self._engine.find(ref).id

    def pod(self, ref: str) -> tuple[str, str, str]:
        """Return ``(data directory, pod UUID, app name)`` of the container, for ``open_pod``."""
        return self.settings.directory, self._engine.find(ref).record.pod, APP

    def attached(self, ref: str) -> AbstractContextManager[None]:
        """Return a context in which a client is attached: the exited pod waits for it to drain."""
        return self._engine.find(ref).attached()

    @property
    def programs(self) -> Programs:
        """The runner of ``ocipod`` commands, with the manager's directories."""
        return self._engine.programs

    def ocipod_command(self, *args: str) -> Argv:
        """Return the argv that runs ``ocipod`` with these arguments."""
        return self.programs.command(*args)

    def _answer(self, container: Container) -> Answer:
        if container.is_corrupt:
            return record.corrupt_answer(container.id, container.damage, NO_POD)
        pending = container.restart is not None
        result = record.answer(container.record, container.pod_status(), starting=pending)
        return result | {"status": states.REMOVING} if container.removing else result


Test = tuple[str, list[str]]

_FILTERS: dict[str, Callable[[Answer, str], bool]] = {
    "id": lambda one, value: one["id"].startswith(value),
    "name": lambda one, value: value in one["name"],
    "status": lambda one, value: one["status"] == value,
    "image": lambda one, value: one["image"] == value,
    "label": lambda one, value: _has_label(one["labels"], value),
    "exited": lambda one, value: one["status"] == states.STOPPED and str(one["exit_code"]) == value,
}


def _tests(filters: Mapping[str, list[str]]) -> list[Test]:
    for name in filters:
        if name not in _FILTERS:
            raise BadRequest(f"filters.{name}", "unknown filter", ", ".join(_FILTERS))
    return list(filters.items())


def _passes(one: Answer, tests: list[Test]) -> bool:
    return all(any(_FILTERS[name](one, value) for value in values) for name, values in tests)


def _has_label(labels: dict[str, str], label: str) -> bool:
    name, equals, value = label.partition("=")
    return name in labels and (not equals or labels[name] == value)


def _checked_timeout(seconds: float | None) -> float | None:
    if seconds is not None and not 0 <= seconds <= 1_000_000:
        raise BadRequest("seconds", f"invalid timeout {seconds}", "0 to 1000000")
    return seconds
