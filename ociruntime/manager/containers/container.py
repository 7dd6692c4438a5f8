"""A container in the daemon's memory: nothing that could not be found again on the disk."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ociruntime.base.errors import Conflict, ManagerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ociruntime.manager.containers.pod_status import Look, Place
    from ociruntime.manager.containers.record import Answer, Record


class Container:
    """``lock`` is held by whatever changes it; ``record`` is None if its file is ``damage``d."""

    def __init__(self, id: str, record: Record | None, place: Place, damage: str = "") -> None:
        self.id = id
        self._record = record
        self.place = place
        self.damage = damage
        self.lock = asyncio.Lock()
        self.removing = False  # it has begun, and is not to be stopped
        self.removed = False
        self.watches: list[int] = []
        self.look_wanted = False
        self.waiters: list[tuple[str, asyncio.Future[Answer]]] = []
        self._attached = 0
        self.unattached = asyncio.Event()  # set while nobody reads what it writes
        self.unattached.set()
        self.restart: asyncio.Task[None] | None = None  # one that is waited for
        self.under_way = False  # that one has begun, and has the lock
        self.delay = 0.0  # seconds, of the restart before

    @property
    def record(self) -> Record:
        """Raises Conflict: it cannot be read."""
        if self._record is None:
            raise Conflict(f"container {self.id} is corrupt: {self.damage}", "rm -f removes it")
        return self._record

    @property
    def is_corrupt(self) -> bool:
        return self._record is None

    @property
    def name(self) -> str:
        return self._record.name if self._record is not None else self.id[:12]

    def look(self) -> Look:
        return self.place.look()

    @contextmanager
    def attached(self) -> Iterator[None]:
        """While somebody is: what is left to read goes with the pod."""
        self._attached += 1
        self.unattached.clear()
        try:
            yield
        finally:
            self._attached -= 1
            if not self._attached:
                self.unattached.set()

    def cancel_restart(self) -> None:
        """The restart that is waited for, if any, does not come.

        One that is under way is not torn apart, which would leave a program starting or half a pod:
        whoever wants the container otherwise finds it started when they get the lock.
        """
        task, self.restart = self.restart, None
        if task is not None and task is not asyncio.current_task() and not self.under_way:
            task.cancel()

    def tell(self, conditions: tuple[str, ...], facts: Answer) -> None:
        """Answer those who wait for one of these."""
        for entry in list(self.waiters):
            if entry[0] in conditions:
                self.waiters.remove(entry)
                if not entry[1].done():
                    entry[1].set_result(facts)

    def abandon(self) -> None:
        """Nobody is answered any more."""
        waiters, self.waiters = self.waiters, []
        for _, future in waiters:
            if not future.done():
                future.set_exception(ManagerError("the manager is being stopped"))
