"""A container's streams over a WebSocket: its monitor's frames as messages.

Binary messages begin with one byte: 0 for what goes to the container's input, 1 for its output or
terminal, 2 for its errors.  Text messages are JSON objects: from here ``{"tty", "streams"}`` first
and last ``{"exit_code"}`` or ``{"error": {"code", "message"}}``; from the client
``{"resize": [rows, columns]}`` and ``{"close": "stdin"}``.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web

from ociruntime.base.errors import BadRequest, Conflict, PodError
from ociruntime.manager.api.errors import error_document
from ociruntime.manager.containers.pod_calls import ask_over
from ociruntime.manager.containers.states import ACTIVE
from ociruntime.pods.loop.control_socket import LARGEST
from ociruntime.pods.store.control import connect
from ociruntime.pods.store.phases import open_pod

if TYPE_CHECKING:
    import socket

    from ociruntime.manager.containers.manager import Manager

STREAMS = ("stdin", "stdout", "stderr")
NUMBERS = {b"o": b"\1", b"e": b"\2"}
MESSAGE = 1 << 20  # bytes that a client may send at once
PART = 32768  # bytes of input handed on at once


async def attach(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Until the container ends or the client goes.

    Query: ``streams`` (names with commas between; all there are), ``wait=1`` to be there from its
    next start on, ``size=ROWS,COLUMNS`` of the client's terminal.  Raises NotFound, Conflict,
    PodError, BadRequest.
    """
    ref = request.match_info["ref"]
    wanted = [name for name in request.query.get("streams", "").split(",") if name]
    for name in wanted:
        if name not in STREAMS:
            raise BadRequest("streams", f'"{name}" is none', ", ".join(STREAMS))
    size = _size(request.query.get("size", ""))
    with manager.attached(ref):
        client = await _attach(manager, request, ref, wanted, size)
    await client.close()
    return client


def _size(text: str) -> tuple[int, int] | None:
    """Raises BadRequest."""
    if not text:
        return None
    words = [word for word in text.split(",") if word.isascii() and word.isdigit()]
    size = window_size({"resize": [int(word[:6]) for word in words]})
    if size is None:
        raise BadRequest("size", f'"{text}" is none', "rows and columns, as in 24,80")
    return size


async def _attach(
    manager: Manager,
    request: web.Request,
    ref: str,
    wanted: list[str],
    size: tuple[int, int] | None,
) -> web.WebSocketResponse:
    wait = request.query.get("wait") == "1"
    if wait:
        await manager.prepare(ref)
    elif (status := manager.get(ref)["status"]) not in ACTIVE:
        hint = "start it first, or use start --attach, which misses nothing"
        raise Conflict(f'container "{ref}": it is {status}', hint)
    directory, uuid, app = manager.pod(ref)
    sock = await asyncio.to_thread(_connect, directory, uuid)
    try:
        words = {"op": "attach", "app": app, "streams": wanted, "wait": wait, "size": size}
        answer = await ask_over(sock, words)
        client = web.WebSocketResponse(max_msg_size=MESSAGE)
        await client.prepare(request)
        await client.send_json({"tty": answer["tty"], "streams": answer["streams"]})
        await relay(_from_monitor(sock, client), _from_client(sock, client))
    finally:
        sock.close()
    return client


def _connect(directory: str, uuid: str) -> socket.socket:
    with open_pod(directory, uuid) as pod:
        sock: socket.socket = connect(pod)
    sock.setblocking(False)
    return sock


async def relay(first: Any, *others: Any) -> None:  # noqa: ANN401 - coroutines
    """Run them side by side until ``first`` or all others have ended, then end the rest."""
    main = asyncio.ensure_future(first)
    rest = asyncio.gather(*others)
    try:
        await asyncio.wait((main, rest), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (main, rest):
            task.cancel()
        await asyncio.gather(main, rest, return_exceptions=True)


async def _from_monitor(sock: socket.socket, client: web.WebSocketResponse) -> None:
    loop = asyncio.get_running_loop()
    while message := await loop.sock_recv(sock, LARGEST):
        kind, data = message[:1], message[1:]
        if kind == b"x":
            await client.send_json({"exit_code": int(data)})
            return
        await client.send_bytes(NUMBERS.get(kind, b"\1") + data)
    await client.send_json(error_document(PodError("the container's pod has ended")))


async def _from_client(sock: socket.socket, client: web.WebSocketResponse) -> None:
    loop = asyncio.get_running_loop()
    async for message in client:
        if message.type == WSMsgType.BINARY and message.data[:1] == b"\0":
            for begin in range(1, len(message.data), PART):
                await loop.sock_sendall(sock, b"i" + message.data[begin : begin + PART])
        elif message.type == WSMsgType.TEXT:
            words = control(message.data)
            if size := window_size(words):
                await loop.sock_sendall(sock, b"r%d %d" % size)
            elif words.get("close") == "stdin":
                await loop.sock_sendall(sock, b"c")


def control(text: str) -> dict[str, Any]:
    """A text message as an object; empty if it is none."""
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return words if isinstance(words, dict) else {}


def window_size(words: dict[str, Any]) -> tuple[int, int] | None:
    """Rows and columns of a message that resizes."""
    size = words.get("resize")
    if not isinstance(size, list) or len(size) != 2:
        return None
    rows, columns = size
    if not all(isinstance(n, int) and 0 < n < 10000 for n in (rows, columns)):
        return None
    return rows, columns
