"""What a program of ``exec`` is to read, on its way to it."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from ociruntime.manager.api.pumps import is_writable

if TYPE_CHECKING:
    from aiohttp import web

ROOM = 262144  # bytes that are kept for a program that does not read them
CHUNK = 65536


class ProgramInput:
    """Keeps ``ROOM`` bytes for ``fd``, so that other messages do not wait behind them.

    The client is told how much it may send: who keeps to it is always listened to.
    """

    def __init__(self, fd: int, *, owned: bool) -> None:
        """``fd``: -1 if nothing is read.

        ``owned``: it is closed at the input's end; of a terminal that says nothing.
        """
        self._fd = fd
        self._owned = owned
        self._waiting = bytearray()
        self._ended = fd < 0
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def put(self, data: bytes) -> None:
        """Wait if the client has sent more than it was told to."""
        await self._has_room.wait()
        if not self._ended:
            self._waiting += data
            self._changed.set()
            if len(self._waiting) >= ROOM:
                self._has_room.clear()

    def end(self) -> None:
        """No more comes; the program reads what is there before it sees that."""
        self._ended = self._ended or self._owned
        self._changed.set()

    async def run(self, client: web.WebSocketResponse) -> None:
        """Until the input's end, or until the program does not read any more."""
        if self._fd >= 0:
            await client.send_json({"room": ROOM})
        taken = 0  # bytes of which the client was not told
        while self._waiting or not self._ended:
            if not self._waiting:
                self._changed.clear()
                await self._changed.wait()
                continue
            try:
                count = os.write(self._fd, self._waiting[:CHUNK])
            except BlockingIOError:
                await is_writable(self._fd)
                continue
            except OSError:
                break
            del self._waiting[:count]
            taken += count
            if len(self._waiting) < ROOM:
                self._has_room.set()
            if taken >= ROOM // 2:
                await client.send_json({"room": taken})
                taken = 0
        self._ended = True
        self._waiting.clear()
        self._has_room.set()  # what still comes is for nobody
        self.close()

    def close(self) -> None:
        """Of the descriptor, if it is ours."""
        if self._owned and self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
