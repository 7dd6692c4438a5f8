"""Relay input and output between a program that ``exec`` runs and a WebSocket.

The program's streams are pipes or a terminal.  This module reads and writes them without blocking,
so that a slow program or a slow client blocks no other request.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Callable

from aiohttp import web

ROOM = 262144  # bytes buffered for a program that does not read
INPUT_CHUNK = 65536
OUTPUT_CHUNK = 32768
KEPT = 65536  # bytes that a terminal may hold in addition to what FIONREAD reports


class ProgramInput:
    """A buffer of ``ROOM`` bytes for a program's input, with flow control.

    Messages ``{"room": BYTES}`` tell the client how much more it may send.  If the client respects
    them, ``put`` never blocks, and input never delays the client's other messages.
    """

    def __init__(self, fd: int, *, owned: bool) -> None:
        """Create the buffer for ``fd``, the write end of the program's input.

        ``fd`` is -1 if the program has no input.  If ``owned``, this object closes ``fd`` at the
        end of the input.  A terminal must not be ``owned``, because ``fd`` is also the descriptor
        from which the program's output is read.
        """
        self._fd = fd
        self._owned = owned
        self._waiting = bytearray()
        self._ended = fd < 0
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def put(self, data: bytes) -> None:
        """Append input from the client; wait while the buffer is full."""
        await self._has_room.wait()
        if not self._ended:
            self._waiting += data
            self._changed.set()
            if len(self._waiting) >= ROOM:
                self._has_room.clear()

    def end(self) -> None:
        """Mark the end of the input; ``run`` still writes the input that is in the buffer.

        Does nothing for a terminal, which stays open.
        """
        self._ended = self._ended or self._owned
        self._changed.set()

    async def run(self, client: web.WebSocketResponse) -> None:
        """Write the input to ``fd`` until the input ends or the program closes its standard input.

        Sends ``{"room": BYTES}`` messages to ``client``.
        """
        if self._fd >= 0:
            await client.send_json({"room": ROOM})
        taken = 0  # bytes written since the last {"room": BYTES} message
        while self._waiting or not self._ended:
            if not self._waiting:
                self._changed.clear()
                await self._changed.wait()
                continue
            try:
                count = os.write(self._fd, self._waiting[:INPUT_CHUNK])
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
        """Close the program's input descriptor if this object owns it."""
        if self._owned and self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


async def pump(
    fd: int,
    number: bytes,
    client: web.WebSocketResponse,
    deadline: asyncio.Future[float],
    is_known: Callable[[bytes], bool],
) -> None:
    """Send a program's output from ``fd`` to the client until end of file (EIO on a terminal).

    When the program exits, the caller must set the future ``deadline`` to a time of the event
    loop's clock.  Output that is waiting in ``fd`` at that moment is always sent, even to a slow
    client.  Later output, from other processes that hold the stream open, is sent until the
    deadline.  Each message begins with ``number``, the byte that identifies the stream.  Drops
    data if ``is_known(data)`` is True.
    """
    owed = -1  # bytes in ``fd`` when the program exited, which must be sent; -1 until then
    while True:
        if deadline.done() and owed < 0:
            owed = _held(fd)
        try:
            data = os.read(fd, OUTPUT_CHUNK)
        except BlockingIOError:
            if await _has_data(fd, deadline):
                continue
            return
        except OSError:
            return
        if not data or (owed == 0 and _is_over(deadline)):
            return
        owed = max(owed - len(data), 0) if owed >= 0 else owed
        if not is_known(data):
            await client.send_bytes(number + data)


def _held(fd: int) -> int:
    (held,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, bytes(4)))
    return max(int(held), KEPT)


def _is_over(deadline: asyncio.Future[float]) -> bool:
    return asyncio.get_running_loop().time() >= deadline.result()


async def _has_data(fd: int, deadline: asyncio.Future[float]) -> bool:
    """Wait until ``fd`` has data or is at end of file; return False if the deadline passes first.

    The result of the future ``deadline`` is a time of the event loop's clock.  Until the future has
    a result, there is no deadline.
    """
    ready = asyncio.ensure_future(is_readable(fd))
    try:
        if not deadline.done():
            await asyncio.wait((ready, deadline), return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            remaining_seconds = deadline.result() - asyncio.get_running_loop().time()
            await asyncio.wait((ready,), timeout=max(remaining_seconds, 0))
        return ready.done()
    finally:
        ready.cancel()
        await asyncio.gather(ready, return_exceptions=True)


async def is_readable(fd: int) -> None:
    """Wait until ``fd`` is readable."""
    loop = asyncio.get_running_loop()
    await _ready(fd, loop.add_reader, loop.remove_reader)


async def is_writable(fd: int) -> None:
    """Wait until ``fd`` is writable."""
    loop = asyncio.get_running_loop()
    await _ready(fd, loop.add_writer, loop.remove_writer)


async def _ready(fd: int, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    add(fd, _resolve, ready)
    try:
        await ready
    finally:
        remove(fd)


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
