"""The standard input of a program of ``exec``, buffered and flow-controlled."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from ociruntime.manager.api.pumps import is_writable

if TYPE_CHECKING:
    from aiohttp import web

ROOM = 262144  # bytes buffered for a program that does not read
CHUNK = 65536


class ProgramInput:
    """A buffer of ``ROOM`` bytes before ``fd``, so that input never delays control messages.

    The client is granted the room that is free; a client that respects it never blocks.
    """

    def __init__(self, fd: int, *, owned: bool) -> None:
        """Create the buffer for ``fd``, -1 for a program without input.

        ``owned``: close ``fd`` at the end of input (which means nothing on a terminal).
        """
        self._fd = fd
        self._owned = owned
        self._waiting = bytearray()
        self._ended = fd < 0
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def put(self, data: bytes) -> None:
        """Append input; wait while the client has exceeded its grant."""
        await self._has_room.wait()
        if not self._ended:
            self._waiting += data
            self._changed.set()
            if len(self._waiting) >= ROOM:
                self._has_room.clear()

    def end(self) -> None:
        """Mark the end of input; the program reads the buffered rest before it sees the end."""
        self._ended = self._ended or self._owned
        self._changed.set()

    async def run(self, client: web.WebSocketResponse) -> None:
        """Write the input to ``fd`` until it ends or the program closes its side."""
        if self._fd >= 0:
            await client.send_json({"room": ROOM})
        taken = 0  # bytes written since the last grant
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
        self._has_room.set()  # input that still arrives is discarded
        self.close()

    def close(self) -> None:
        """Close the descriptor if it is owned."""
        if self._owned and self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
