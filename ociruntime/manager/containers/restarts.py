"""Restart a container: the restart policy, and the backoff between two restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ociruntime.manager.containers import container_spec as specs
from ociruntime.manager.containers.container_records import Record
from ociruntime.manager.containers.pod_status import RUNNING

FIRST_DELAY = 0.1  # seconds, the first backoff between two restarts
LONGEST_DELAY = 60.0
STABLE = 10.0  # seconds of uptime that reset the backoff

Begin = Callable[[str, Coroutine[Any, Any, None]], "asyncio.Task[None]"]


def should_restart(record: Record, *, at_reload: bool = False) -> bool:
    """Return whether the restart policy restarts a container that has exited.

    An unknown exit status counts as a failure.  A container that a client has stopped is not
    restarted, with one exception, as in docker: the policy ``always`` restarts it when the daemon
    starts (``at_reload``).
    """
    name, maximum = record.restart_policy
    if not record.ever_started:
        return False
    if name == specs.ALWAYS:
        return record.wanted == RUNNING or at_reload
    if record.wanted != RUNNING:
        return False
    if name == specs.UNLESS_STOPPED:
        return True
    failed = record.last.exit_code != 0
    return name == specs.ON_FAILURE and failed and (not maximum or record.restart_count < maximum)


class Restarts:
    """Schedule the restarts of one container; at most one restart is pending at a time.

    ``begin(action, coroutine)`` starts a background task.  ``lock`` is the container's lock.
    ``restart(at_reload)`` restarts the container; it is called with the lock held.  ``at_reload``
    is True when the daemon has just started.
    """

    def __init__(
        self, begin: Begin, lock: asyncio.Lock, restart: Callable[[bool], Awaitable[None]]
    ) -> None:
        self._begin = begin
        self._lock = lock
        self._restart = restart
        self._pending: asyncio.Task[None] | None = None
        self._under_way = False  # the pending task holds the lock and is restarting
        self._delay = 0.0  # seconds, the latest backoff

    @property
    def pending(self) -> bool:
        """True while a restart is scheduled or under way."""
        return self._pending is not None

    def in_task(self) -> bool:
        """Return whether the calling asyncio task is the pending restart itself."""
        return self._pending is asyncio.current_task()

    def forget_backoff(self) -> None:
        """Reset the backoff: the delay before the next restart is ``FIRST_DELAY``."""
        self._delay = 0.0

    def after_run(self, uptime: float) -> None:
        """Schedule a restart after the next backoff; the last run lasted ``uptime`` seconds."""
        self._delay = next_delay(self._delay, uptime)
        self._later(self._delay, at_reload=False)

    def at_reload(self) -> None:
        """Schedule an immediate restart, for a container that exited while no daemon ran."""
        self._later(0.0, at_reload=True)

    def cancel(self) -> None:
        """Cancel the pending restart; do nothing if no restart is pending.

        A restart that is under way is not interrupted, because that could leave an incomplete pod.
        A caller that then takes the container's lock waits until the restart is complete.
        """
        task, self._pending = self._pending, None
        if task is not None and task is not asyncio.current_task() and not self._under_way:
            task.cancel()

    def _later(self, delay: float, *, at_reload: bool) -> None:
        self.cancel()
        self._pending = self._begin("restart", self._after(delay, at_reload))

    async def _after(self, delay: float, at_reload: bool) -> None:
        await asyncio.sleep(delay)
        async with self._lock:
            if not self.in_task():
                return
            self._under_way = True
            try:
                await self._restart(at_reload)
            finally:
                self._under_way = False
                if self.in_task():
                    self._pending = None


def next_delay(before: float, uptime: float) -> float:
    """Return the next backoff in seconds: twice ``before``, at most ``LONGEST_DELAY``.

    ``before`` is the previous backoff, ``uptime`` the duration of the last run in seconds.  Returns
    ``FIRST_DELAY`` if ``before`` is 0 or ``uptime`` is at least ``STABLE``.
    """
    if before <= 0 or uptime >= STABLE:
        return FIRST_DELAY
    return min(before * 2, LONGEST_DELAY)
