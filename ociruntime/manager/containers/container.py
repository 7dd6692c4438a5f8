"""A container in the daemon's memory; all of its lasting state is on disk."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ociruntime.base.errors import Conflict, ManagerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ociruntime.manager.containers.pod_status import PodHandle, PodStatus
    from ociruntime.manager.containers.record import Answer, Record


class Container:
    """A container of the manager.

    ``lock`` must be held to change it.  ``damage`` is why its record cannot be read, "" if it can.
    """

    def __init__(
        self, id: str, record: Record | None, pod_handle: PodHandle, damage: str = ""
    ) -> None:
        self.id = id
        self._record = record
        self.pod_handle = pod_handle
        self.damage = damage
        self.lock = asyncio.Lock()
        self.removing = False  # removal has begun and cannot be cancelled
        self.removed = False
        self.watches: list[int] = []
        self.reconcile_scheduled = False
        self.waiters: list[tuple[str, asyncio.Future[Answer]]] = []
        self._attached = 0
        self.unattached = asyncio.Event()  # set while no client is attached
        self.unattached.set()
        self.restart: asyncio.Task[None] | None = None  # the pending restart
        self.restarting = False  # that task holds the lock and is restarting
        self.delay = 0.0  # seconds, the latest backoff

    @property
    def record(self) -> Record:
        """The container's record.  Raises Conflict if it cannot be read."""
        if self._record is None:
            raise Conflict(
                f'container "{self.id}": its record is corrupt: {self.damage}',
                "remove it with rm -f",
            )
        return self._record

    @property
    def is_corrupt(self) -> bool:
        return self._record is None

    @property
    def name(self) -> str:
        return self._record.name if self._record is not None else self.id[:12]

    def pod_status(self) -> PodStatus:
        return self.pod_handle.pod_status()

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Count an attached client: its unread output would be lost with the pod."""
        self._attached += 1
        self.unattached.clear()
        try:
            yield
        finally:
            self._attached -= 1
            if not self._attached:
                self.unattached.set()

    def cancel_restart(self) -> None:
        """Cancel the pending restart, if any.

        A restart that is already under way runs to its end: interrupting it would leave a program
        starting or an incomplete pod.  The caller finds the container started when it gets the
        lock.
        """
        task, self.restart = self.restart, None
        if task is not None and task is not asyncio.current_task() and not self.restarting:
            task.cancel()

    def notify(self, conditions: tuple[str, ...], facts: Answer) -> None:
        """Answer the clients that wait for one of these conditions."""
        for entry in list(self.waiters):
            if entry[0] in conditions:
                self.waiters.remove(entry)
                if not entry[1].done():
                    entry[1].set_result(facts)

    def abandon(self) -> None:
        """Fail every pending ``wait``: the daemon is shutting down."""
        waiters, self.waiters = self.waiters, []
        for _, future in waiters:
            if not future.done():
                message = f'wait for container "{self.name}": the daemon is shutting down'
                future.set_exception(ManagerError(message))
