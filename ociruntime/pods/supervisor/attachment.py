"""The monitor's side of ``attach``: relay between a control connection and an app's streams."""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import PodError
from ociruntime.pods.loop.control_socket import Connection
from ociruntime.pods.supervisor.app_run import AppRun
from ociruntime.pods.supervisor.app_streams import AppStreams

KINDS = {"stdout": b"o", "stderr": b"e"}
ALL = ("stdin", "stdout", "stderr")


def endpoints(app: AppRun) -> list[str]:
    """Return what can be attached: ``tty``, or those of the three streams that the app has."""
    streams = app.streams
    if streams is None:
        return []
    if app.terminal:
        return ["tty"]
    shown = [name for name in ("stdout", "stderr") if streams.has_output(name)]
    return ["stdin", *shown] if streams.has_input else shown


def _to_come(app: AppRun) -> list[str]:
    """Return what can be attached once the app is started."""
    if app.terminal:
        return list(ALL)
    given = {"stdin": app.kinds.get("stdin") == "stream"}
    return [name for name in ALL if given.get(name, app.kinds.get(name) != "null")]


def _size_of(request: dict[str, Any]) -> tuple[int, int] | None:
    """Return (rows, columns) of a request, None if missing or malformed."""
    match request.get("size"):
        case [int(rows), int(columns)] if 0 < rows < 10000 and 0 < columns < 10000:
            return rows, columns
    return None


class Attachment:
    """An attached client, until it disconnects or the app exits.

    With ``wait`` in the request, an app that is not running is attached at its next start, before
    it can write anything.  With ``size`` (rows, columns), its terminal gets that size before the
    program runs.
    """

    __slots__ = ("_app", "_connection", "_size", "_streams", "_wanted")

    def __init__(self, connection: Connection, app: AppRun, request: dict[str, Any]) -> None:
        """Answer the request; its ``streams`` lists what to attach.  Raises PodError."""
        state = app.record["state"]
        self._app = app
        self._connection = connection
        self._streams: AppStreams | None = None
        self._size = _size_of(request)
        if app.streams is not None and state in ("running", "stopping"):
            offered = list(ALL) if app.terminal else endpoints(app)
        elif request.get("wait") and not app.is_active:
            offered = _to_come(app)
        else:
            raise PodError(f'app "{app.name}" is not running: it is {state}')
        wanted = request.get("streams") or offered
        if not isinstance(wanted, list):
            raise PodError('attach: "streams" of the request must be a list')
        self._wanted = [str(name) for name in wanted]
        for name in self._wanted:
            if name not in offered:
                hint = f"it has {', '.join(offered) or 'none'}"
                raise PodError(f'app "{app.name}" has no {name} to attach to', hint)
        if app.streams is not None:
            self._use(app.streams)
        else:
            app.on_streams.append(self._use)
            connection.pause(True)  # hold back input until the app is there to read it
        app.watchers.append(self._ended)
        connection.on_frame = self._frame
        connection.on_close = self._closed
        connection.answer({"tty": app.terminal, "streams": self._wanted})

    def _use(self, streams: AppStreams) -> None:
        self._streams = streams
        streams.sinks.append(self._output)
        streams.on_room.append(self._has_room)
        if self._size is not None:
            streams.resize(*self._size)
        self._connection.pause(False)

    def _output(self, stream: str, data: bytes) -> None:
        if stream in self._wanted:
            self._connection.send(KINDS[stream] + data)

    def _frame(self, message: bytes) -> None:
        kind, rest = message[:1], message[1:]
        if kind == b"r":
            self._resize(rest)
        elif "stdin" not in self._wanted or self._streams is None:
            return
        elif kind == b"i":
            self._connection.pause(not self._streams.put(rest))
        elif kind == b"c":
            self._streams.end_input()

    def _resize(self, size: bytes) -> None:
        words = size.split()
        given = all(word.isdigit() and len(word) < 5 for word in words)
        if len(words) == 2 and given and self._streams is not None:
            self._streams.resize(int(words[0]), int(words[1]))

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
