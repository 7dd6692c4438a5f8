"""The manager: what can be asked of it, each as one method."""

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
from ociruntime.manager.containers.pod_status import APP, NOWHERE
from ociruntime.manager.containers.reload import reload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from ociruntime.manager.containers.container import Container
    from ociruntime.manager.containers.events import EventBus
    from ociruntime.manager.containers.pod_calls import Programs
    from ociruntime.manager.containers.record import Answer
    from ociruntime.manager.containers.settings import Settings

    Words = list[str]

CONDITIONS = ("not-running", "next-exit", "removed")


class Manager:
    """Containers below ``settings.root``, by references: an id, its beginning, or a name.

    Every method raises NotFound if a reference means no container, Conflict if its state forbids
    the request, ManagerError (or another RuntimeFailure) for what could not be done; what could not
    be done has changed nothing.  With ``strict`` a verb that has nothing to do is a Conflict, too.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._engine = Engine(settings)

    @property
    def events(self) -> EventBus:
        return self._engine.events

    async def open(self) -> None:
        """Take the lock of the directory, and up the containers that there are.

        Raises ManagerError: another daemon has it; HostError.
        """
        engine = self._engine
        engine.on_change = lambda container: lifecycle.notice(engine, container)
        engine.open()
        await reload(engine)

    def abandon(self) -> None:
        """Answer those who wait for containers that the manager ends; nothing is begun any more."""
        self._engine.abandon()

    async def close(self) -> None:
        """Let go of everything; containers keep running."""
        await self._engine.close()

    async def create(self, spec: dict[str, Any]) -> Answer:
        """A new container.  Raises BadRequest as well, with the JSON path."""
        return self._answer(await creation.create(self._engine, spec))

    async def start(self, ref: str, *, strict: bool = False) -> bool:
        """False if it ran already.  Raises StartFailed, which has the exit code.

        ``strict``: it must be created or stopped.
        """
        return await lifecycle.start(self._engine, self._engine.find(ref), strict=strict)

    async def prepare(self, ref: str) -> None:
        """Let it have a pod that runs, in which it may be started at once."""
        await lifecycle.prepare(self._engine, self._engine.find(ref))

    async def stop(self, ref: str, seconds: float | None = None, *, strict: bool = False) -> bool:
        """Back when it has ended; False if it did not run.  ``seconds``: until it is killed.

        ``strict``: it must run.
        """
        container = self._engine.find(ref)
        return await lifecycle.stop(self._engine, container, _patience(seconds), strict=strict)

    async def kill(self, ref: str, signal: str = "SIGKILL") -> None:
        """Send a signal (name or number) to its first process, which must run."""
        try:
            await running.kill(self._engine, self._engine.find(ref), signal)
        except UsageError as error:
            raise BadRequest("signal", error.message, error.hint) from None

    async def restart(self, ref: str, seconds: float | None = None) -> None:
        """``stop`` and ``start``."""
        await lifecycle.restart(self._engine, self._engine.find(ref), _patience(seconds))

    async def pause(self, ref: str) -> None:
        """Conflict if it is already."""
        await running.pause(self._engine, self._engine.find(ref), paused=True)

    async def unpause(self, ref: str) -> None:
        """Conflict if it is not paused."""
        await running.pause(self._engine, self._engine.find(ref), paused=False)

    async def wait(self, ref: str, condition: str = "not-running") -> Answer:
        """``{"exit_code", "signal", "oom_killed", "error", "finished_at"}``.

        ``condition``: ``not-running`` (now or later), ``next-exit``, ``removed``.  Raises
        ManagerError if the manager is closed meanwhile.
        """
        if condition not in CONDITIONS:
            raise BadRequest("condition", f'"{condition}" is not possible', ", ".join(CONDITIONS))
        container = self._engine.find(ref)
        if condition == "not-running" and not self._is_up(container):
            async with container.lock:  # its end is noted
                still_there(container)
                if not container.is_corrupt:
                    await lifecycle.note(self._engine, container)
                if not self._is_up(container):
                    return removal.facts_of(container)
        if self._engine.closing:
            raise ManagerError("the manager is being stopped")
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
        look = container.look()
        return container.restart is not None or states.status_of(
            look, container.record.ever_started
        ) in (*states.ACTIVE, states.RESTARTING)

    async def rename(self, ref: str, name: str) -> None:
        """Raises BadRequest: it is no name; Conflict: it is in use."""
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
        """With all its files.  A running one only with ``force``."""
        container = self._engine.find(ref)
        if force and not container.is_corrupt:
            container.cancel_restart()
            await lifecycle.hasten(container, 0)
        await removal.remove(self._engine, container, force=force)

    async def prune(self) -> list[str]:
        """Remove all that are created or stopped; their ids."""
        removed = []
        for container in list(self._engine.containers.values()):
            try:
                await removal.remove(self._engine, container, force=False)
            except (Conflict, NotFound):
                continue
            removed.append(container.id)
        return removed

    def get(self, ref: str) -> Answer:
        """All about a container, as it is now."""
        return self._answer(self._engine.find(ref))

    def list(
        self, *, all: bool = True, filters: Mapping[str, list[str]] | None = None
    ) -> list[Answer]:
        """Newest first; without ``all`` those that run or are paused.

        ``filters``: ``id``, ``name`` (a part of it), ``status``, ``image``, ``label`` (``NAME`` or
        ``NAME=VALUE``), ``exited`` (a code); one of the values of each.  Raises BadRequest.
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
        """The container's id."""
        return self._engine.find(ref).id

    def pod(self, ref: str) -> tuple[str, str, str]:
        """``(directory, UUID, name of the app)``: what ``open_pod`` takes reaches the rest."""
        return self.settings.directory, self._engine.find(ref).record.pod, APP

    def attached(self, ref: str) -> AbstractContextManager[None]:
        """While it lasts, the container's pod is not ended of itself, for some time."""
        return self._engine.find(ref).attached()

    @property
    def programs(self) -> Programs:
        """What runs ``ocipod`` with the manager's directories."""
        return self._engine.programs

    def ocipod_command(self, *words: str) -> Words:
        """The command line of ``ocipod`` with these words."""
        return self.programs.command(*words)

    def _answer(self, container: Container) -> Answer:
        if container.is_corrupt:
            return record.corrupt_answer(container.id, container.damage, NOWHERE)
        pending = container.restart is not None
        told = record.answer(container.record, container.look(), starting=pending)
        return told | {"status": states.REMOVING} if container.removing else told


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


def _has_label(labels: dict[str, str], wanted: str) -> bool:
    name, equals, value = wanted.partition("=")
    return name in labels and (not equals or labels[name] == value)


def _patience(seconds: float | None) -> float | None:
    if seconds is not None and not 0 <= seconds <= 1_000_000:
        raise BadRequest("seconds", f"{seconds} is no number of seconds", "0 or more")
    return seconds
