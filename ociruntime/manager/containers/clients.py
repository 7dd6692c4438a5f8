"""The clients of a container: those attached to its streams, and those that wait for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ociruntime.manager.containers.records import Answer

CONDITIONS = ("not-running", "next-exit", "removed")
DRAIN_TIMEOUT = 30.0  # seconds for attached clients to read the remaining output


class Clients:
    """The API clients attached to or waiting for one container.

    ``CONDITIONS`` lists what they can wait for.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[str, asyncio.Future[Answer]]] = []
        self._attached = 0
        self._drained = asyncio.Event()  # set while no client is attached
        self._drained.set()

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Count an attached client: its unread output would be lost with the pod."""
        self._attached += 1
        self._drained.clear()
        try:
            yield
        finally:
            self._attached -= 1
            if not self._attached:
                self._drained.set()

    async def drain(self) -> None:
        """Wait until attached clients have read the output of the exited container."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._drained.wait(), DRAIN_TIMEOUT)

    async def wait(self, condition: str) -> Answer:
        """Wait until ``notify`` is called with this condition; return its outcome."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        entry = (condition, future)
        self._waiting.append(entry)
        try:
            return await future
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    def notify(self, conditions: tuple[str, ...], outcome: Answer) -> None:
        """Answer the clients that wait for one of these conditions."""
        for entry in [one for one in self._waiting if one[0] in conditions]:
            self._waiting.remove(entry)
            if not entry[1].done():
                entry[1].set_result(outcome)

    def abandon(self, error: Exception) -> None:
        """Fail every pending ``wait``."""
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)
