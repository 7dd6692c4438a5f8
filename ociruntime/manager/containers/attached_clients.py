"""API clients that are attached to a container, or that wait for its exit or removal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from ociruntime.manager.containers.container_records import Answer

CONDITIONS = ("not-running", "next-exit", "removed")


class Clients:
    """The API clients that are attached to one container, or that wait for its exit or removal.

    The conditions of ``wait`` and ``notify`` are ``not-running``, ``next-exit`` and ``removed``.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[str, asyncio.Future[Answer]]] = []
        self._attached = 0

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Context manager: count one more client as attached until the context ends."""
        self._attached += 1
        try:
            yield
        finally:
            self._attached -= 1

    @property
    def any_attached(self) -> bool:
        """True while at least one client is attached."""
        return self._attached > 0

    async def wait(self, condition: str) -> Answer:
        """Wait for a ``notify`` with ``condition``, and return the ``outcome`` passed to it.

        If ``abandon`` is called first, raises the error passed to ``abandon``.
        """
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        entry = (condition, future)
        self._waiting.append(entry)
        try:
            return await future
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    def notify(self, conditions: tuple[str, ...], outcome: Answer) -> None:
        """Make each pending ``wait`` for one of ``conditions`` return ``outcome``."""
        for entry in [entry for entry in self._waiting if entry[0] in conditions]:
            self._waiting.remove(entry)
            if not entry[1].done():
                entry[1].set_result(outcome)

    def abandon(self, error: Exception) -> None:
        """Make every pending ``wait`` raise ``error``."""
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)
