"""The monitor's side of ``attach``: copy data between a client and an app's streams."""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import PodError
from ociruntime.pods.loop.control_socket import Connection
from ociruntime.pods.monitor.app_run import AppRun
from ociruntime.pods.monitor.app_streams import AppStreams

FRAME_KINDS = {"stdout": b"o", "stderr": b"e"}
STREAMS = ("stdin", "stdout", "stderr")


def endpoints(app: AppRun) -> list[str]:
    """Return the names of the streams of ``app`` that a client can attach to.

    The result is [] for an app that is not running, and ["tty"] for an app with a terminal.
    Otherwise, it contains some of stdin, stdout and stderr.
    """
    streams = app.streams
    if streams is None:
        return []
    if app.terminal:
        return ["tty"]
    outputs = [name for name in ("stdout", "stderr") if streams.has_output(name)]
    return ["stdin", *outputs] if streams.has_input else outputs


def _future_streams(app: AppRun) -> list[str]:
    """Return the names of the streams that a client can attach to once the app is started."""
    if app.terminal:
        return list(STREAMS)
    outputs = [name for name in ("stdout", "stderr") if app.kinds.get(name) != "null"]
    return ["stdin", *outputs] if app.kinds.get("stdin") == "stream" else outputs


def _size_of(request: dict[str, Any]) -> tuple[int, int] | None:
    """Return the terminal size in ``request`` as (rows, columns), or None if missing or invalid."""
    match request.get("size"):
        case [int(rows), int(columns)] if 0 < rows < 10000 and 0 < columns < 10000:
            return rows, columns
    return None


class Attachment:
    """A client that is attached to an app, until the client disconnects or the app exits.

    A request with the member ``wait`` can be for an app that is not running.  The client is then
    attached at the app's next start, before the app can write anything.  The request's member
    ``size``, [rows, columns], sets the size of the app's terminal.
    """

    __slots__ = ("_app", "_attached", "_connection", "_size", "_streams")

    def __init__(self, connection: Connection, app: AppRun, request: dict[str, Any]) -> None:
        """Attach the client and answer its request.

        The member ``streams`` of ``request`` lists the streams to attach to; the default is all.
        Raises PodError if the app lacks one of these streams.  Unless the request has the member
        ``wait``, raises PodError if the app is not running.
        """
        state = app.record["state"]
        where = f'app "{app.name}" of pod {app.context.runtime.uuid}'
        self._app = app
        self._connection = connection
        self._streams: AppStreams | None = None
        self._size = _size_of(request)
        if app.streams is not None and state in ("running", "stopping"):
            available = list(STREAMS) if app.terminal else endpoints(app)
        elif request.get("wait") and not app.is_active:
            available = _future_streams(app)
        else:
            raise PodError(f'{where} is not running: its state is "{state}"')
        requested = request.get("streams") or available
        if not isinstance(requested, list):
            raise PodError(f'attach to {where}: "streams" of the request must be a list')
        self._attached = [str(name) for name in requested]
        for name in self._attached:
            if name not in available:
                hint = f"its streams: {', '.join(available) or 'none'}"
                raise PodError(f'attach to {where}: the app has no stream "{name}"', hint)
        if app.streams is not None:
            self._use(app.streams)
        else:
            app.on_streams.append(self._use)
            connection.pause(True)  # do not read input before the app is started
        app.watchers.append(self._ended)
        connection.on_frame = self._frame
        connection.on_close = self._closed
        connection.answer({"tty": app.terminal, "streams": self._attached})

    def _use(self, streams: AppStreams) -> None:
        self._streams = streams
        streams.sinks.append(self._output)
        streams.on_room.append(self._has_room)
        if self._size is not None:
            streams.resize(*self._size)
        self._connection.pause(False)

    def _output(self, stream: str, data: bytes) -> None:
        if stream in self._attached:
            self._connection.send(FRAME_KINDS[stream] + data)

    def _frame(self, message: bytes) -> None:
        kind, payload = message[:1], message[1:]
        if kind == b"r":
            self._resize(payload)
        elif "stdin" not in self._attached or self._streams is None:
            return
        elif kind == b"i":
            self._connection.pause(not self._streams.put(payload))
        elif kind == b"c":
            self._streams.end_input()

    def _resize(self, size: bytes) -> None:
        fields = size.split()
        are_valid = all(field.isdigit() and len(field) < 5 for field in fields)
        if len(fields) == 2 and are_valid and self._streams is not None:
            self._streams.resize(int(fields[0]), int(fields[1]))

    def _has_room(self) -> None:
        self._connection.pause(False)

    def _ended(self, code: int) -> None:
        self._connection.send(b"x%d" % code, needed=True)

    def _closed(self) -> None:
        if self._streams is not None:
            self._streams.sinks.remove(self._output)
            self._streams.on_room.remove(self._has_room)
        elif self._use in self._app.on_streams:
            self._app.on_streams.remove(self._use)
        self._app.watchers.remove(self._ended)
