"""Relaying of a program's output from pipes and terminals to a client that may be slow."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

CHUNK = 32768
KEPT = 65536  # bytes that a terminal may hold beyond what FIONREAD reports


async def pump(
    fd: int,
    number: bytes,
    client: web.WebSocketResponse,
    deadline: asyncio.Future[float],
    is_known: Callable[[bytes], bool],
) -> None:
    """Send the output in ``fd`` to the client until every writer has closed it.

    A terminal reports that as an error (EIO).  ``deadline`` is set when the program has exited.
    Output that was in ``fd`` by then is always drained, however slow the client is; output of
    other processes that hold ``fd`` open is sent until the deadline.  Data for which ``is_known``
    returns True is dropped.
    """
    owed = -1  # bytes that may still be the program's; -1 until it has exited
    while True:
        if deadline.done() and owed < 0:
            owed = _held(fd)
        try:
            data = os.read(fd, CHUNK)
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
    """Return whether ``fd`` becomes readable (data or end of file) before ``deadline``."""
    ready = asyncio.ensure_future(is_readable(fd))
    try:
        if not deadline.done():
            await asyncio.wait((ready, deadline), return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            left = deadline.result() - asyncio.get_running_loop().time()
            await asyncio.wait((ready,), timeout=max(left, 0))
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
