"""The API's attach route: relay a container's streams between its monitor and a WebSocket.

Binary messages begin with one byte: 0 for standard input, 1 for standard output or the terminal, 2
for standard error.  Text messages are JSON objects.  The daemon's first message is
``{"tty", "streams"}``, its last message ``{"exit_code"}`` or ``{"error": {"code", "message"}}``.
The client may send ``{"resize": [rows, columns]}`` and ``{"close": "stdin"}``.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections import deque
from contextlib import closing
from typing import Any

from aiohttp import WSMsgType, web

from ociruntime.base.errors import BadRequest, Conflict, HostError, PodError, RuntimeFailure
from ociruntime.manager.api.error_answers import error_document
from ociruntime.manager.containers.container import Container
from ociruntime.manager.containers.manager import Manager
from ociruntime.manager.containers.pod_calls import ask_over
from ociruntime.manager.containers.pod_status import ACTIVE
from ociruntime.pods.loop.control_socket import HELD, LARGEST
from ociruntime.pods.store.control_client import connect
from ociruntime.pods.store.phases import open_pod

STREAMS = ("stdin", "stdout", "stderr")
NUMBERS = {b"o": b"\1", b"e": b"\2"}
MESSAGE = 1 << 20  # maximum bytes of a client's message
PART = 32768  # bytes of input per frame to the monitor
_POLL_INTERVAL = 0.05  # seconds


async def attach(manager: Manager, request: web.Request) -> web.StreamResponse:
    """Relay a container's streams until the container exits or the client disconnects.

    The query may have ``streams`` (comma-separated names; default: all), ``wait=1`` to attach
    before the next start, and ``size=ROWS,COLUMNS``, the size of the client's terminal.  Raises
    NotFound if there is no such container, Conflict if it is not running and ``wait`` is not set,
    BadRequest for an invalid query, PodError if the monitor refuses.
    """
    streams = [name for name in request.query.get("streams", "").split(",") if name]
    for name in streams:
        if name not in STREAMS:
            hint = f"supported: {', '.join(STREAMS)}"
            raise BadRequest("streams", f'unknown stream "{name}"', hint)
    size = _size(request.query.get("size", ""))
    container = manager.find(request.match_info["ref"])
    wait = request.query.get("wait") == "1"
    client = web.WebSocketResponse(max_msg_size=MESSAGE)
    try:
        with container.clients.attached():
            if wait:
                await container.prepare()
            elif (status := container.inspect()["status"]) not in ACTIVE:
                hint = "use ocictl start --attach"
                raise Conflict(
                    f'attach to container "{container.name}": its status is "{status}"', hint
                )
            directory, uuid, app = container.location
            with closing(await asyncio.to_thread(_connect, directory, uuid)) as sock:
                frame = {"op": "attach", "app": app, "streams": streams, "wait": wait, "size": size}
                try:
                    answer = await ask_over(sock, frame)
                except OSError as error:
                    raise HostError(f'attach to container "{container.name}"', error) from None
                await client.prepare(request)
                await client.send_json({"tty": answer["tty"], "streams": answer["streams"]})
                await relay(_from_monitor(container, sock, client), _from_client(sock, client))
    finally:
        container.release()
    await client.close()
    return client


def _size(text: str) -> tuple[int, int] | None:
    """Parse ``text``, a terminal size ``ROWS,COLUMNS``; return (rows, columns), or None for "".

    Raises BadRequest if ``text`` is not a terminal size.
    """
    if not text:
        return None
    match = re.fullmatch(r"([0-9]{1,6}),([0-9]{1,6})", text)
    size = window_size({"resize": [int(number) for number in match.groups()]}) if match else None
    if size is None:
        hint = "use ROWS,COLUMNS such as 24,80"
        raise BadRequest("size", f'invalid terminal size "{text}"', hint)
    return size


def _connect(directory: str, uuid: str) -> socket.socket:
    with open_pod(directory, uuid) as pod:
        sock: socket.socket = connect(pod)
    sock.setblocking(False)
    return sock


async def relay(first: Any, *others: Any) -> None:  # noqa: ANN401 - coroutines
    """Run coroutines until ``first`` or all ``others`` have ended; cancel those still running.

    Ignores the exceptions that the coroutines raise.
    """
    main = asyncio.ensure_future(first)
    rest = asyncio.gather(*others)
    try:
        await asyncio.wait((main, rest), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (main, rest):
            task.cancel()
        await asyncio.gather(main, rest, return_exceptions=True)


async def _from_monitor(
    container: Container, sock: socket.socket, client: web.WebSocketResponse
) -> None:
    output = _Output(container, sock)
    reading = asyncio.ensure_future(output.read())
    try:
        while message := await output.next():
            kind, data = message[:1], message[1:]
            if kind == b"x":
                try:
                    await container.settled()
                except RuntimeFailure as failure:
                    await client.send_json(error_document(failure))
                else:
                    await client.send_json({"exit_code": int(data)})
                return
            await client.send_bytes(NUMBERS.get(kind, b"\1") + data)
    finally:
        reading.cancel()
    await client.send_json(
        error_document(PodError(f'attach to container "{container.name}": it has just exited'))
    )


class _Output:
    """Buffer the output messages of a pod's monitor for a client that may be slow.

    While the program runs, reading pauses as soon as the buffer holds more than ``HELD`` bytes.
    Once the program has exited, reads all remaining messages without a pause, so that the pod can
    release its addresses and ports without waiting for the client.
    """

    def __init__(self, container: Container, sock: socket.socket) -> None:
        self._container = container
        self._socket = sock
        self._messages: deque[bytes] = deque()
        self._held = 0
        self._changed = asyncio.Event()

    async def read(self) -> None:
        """Buffer messages until the monitor closes the connection; then append b"" as the end."""
        loop = asyncio.get_running_loop()
        message = b"."
        while message:
            try:
                message = await loop.sock_recv(self._socket, LARGEST)
            except OSError:
                message = b""
            self._messages.append(message)
            self._held += len(message)
            self._changed.set()
            while self._held > HELD and not self._container.pod.status().is_ending:
                await asyncio.sleep(_POLL_INTERVAL)

    async def next(self) -> bytes:
        """Wait for the monitor's next message and return it; return b"" after the last message."""
        while not self._messages:
            self._changed.clear()
            await self._changed.wait()
        message = self._messages.popleft()
        self._held -= len(message)
        return message


async def _from_client(sock: socket.socket, client: web.WebSocketResponse) -> None:
    loop = asyncio.get_running_loop()
    async for message in client:
        if message.type == WSMsgType.BINARY and message.data[:1] == b"\0":
            for begin in range(1, len(message.data), PART):
                await loop.sock_sendall(sock, b"i" + message.data[begin : begin + PART])
        elif message.type == WSMsgType.TEXT:
            request = control(message.data)
            if size := window_size(request):
                await loop.sock_sendall(sock, b"r%d %d" % size)
            elif request.get("close") == "stdin":
                await loop.sock_sendall(sock, b"c")


def control(text: str) -> dict[str, Any]:
    """Parse a client's text message; return {} if it is not a JSON object."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def window_size(message: dict[str, Any]) -> tuple[int, int] | None:
    """Return (rows, columns) from a resize message; None if the message has no valid size."""
    size = message.get("resize")
    if not isinstance(size, list) or len(size) != 2:
        return None
    rows, columns = size
    if not all(isinstance(n, int) and 0 < n < 10000 for n in (rows, columns)):
        return None
    return rows, columns
