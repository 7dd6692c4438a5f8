"""The clients of a container: those attached to its streams, and those that wait for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from ociruntime.manager.containers.records import Answer

CONDITIONS = ("not-running", "next-exit", "removed")


class Clients:
    """The API clients attached to or waiting for one container.

    ``CONDITIONS`` lists what they can wait for.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[str, asyncio.Future[Answer]]] = []
        self._attached = 0

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Count an attached client, which may wait for the container's start."""
        self._attached += 1
        try:
            yield
        finally:
            self._attached -= 1

    @property
    def any_attached(self) -> bool:
        return self._attached > 0

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
