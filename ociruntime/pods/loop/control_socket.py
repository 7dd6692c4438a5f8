"""The control socket of a pod's monitor, on which clients send requests as JSON.

The socket has the type SOCK_SEQPACKET; each request and each answer is one message.  After the
answer to the request ``attach``, messages are frames instead.  Their first byte is the type:

    to the monitor:    i  bytes for the app's input
                       c  end of input
                       r  new size of the terminal: ROWS COLUMNS, decimal
    from the monitor:  o  bytes of stdout or the terminal
                       e  bytes of stderr
                       x  exit code, decimal: the last frame
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from ociruntime.base import json_files
from ociruntime.base.errors import HostError, PodError, RuntimeFailure, unhandled
from ociruntime.pods.loop.event_loop import HUNG_UP, READABLE, WRITABLE, Loop, Timer

Answer = Callable[[dict[str, Any]], None]
Handler = Callable[["Connection", dict[str, Any]], None]


LARGEST = 65536 + 1  # bytes of a message
HELD = 1 << 20  # bytes to buffer for a slow client before its output is dropped
BACKLOG = 64
RETRY_DELAY = 0.1  # seconds until accept(2) is retried after EMFILE


class ControlSocket:
    """The listening control socket of a pod.

    For each request, ``handler`` is called with the client's connection and the JSON object of the
    request.  The handler may answer the request later.
    """

    __slots__ = ("_fd", "_handler", "_loop", "_path", "_retry", "_socket", "connections")

    def __init__(self, loop: Loop, path: str, handler: Handler, fd: int = -1) -> None:
        """Create the socket at ``path``, or use the listening socket ``fd`` if it is not -1.

        Raises HostError if the socket cannot be created.
        """
        self._loop = loop
        self._path = path
        self._handler = handler
        self.connections: list[Connection] = []
        kind = socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK
        self._socket = listen(path, kind, BACKLOG) if fd < 0 else socket.socket(fileno=fd)
        self._fd = self._socket.fileno()
        self._retry: Timer | None = None
        self._listen()

    def _listen(self) -> None:
        self._loop.watch(self._fd, READABLE, self._accept)

    @property
    def descriptor(self) -> int:
        """The descriptor of the listening socket."""
        return self._fd

    def _accept(self, events: int) -> None:
        del events
        try:
            sock, _ = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # the client has disconnected before it was accepted
        except OSError:  # EMFILE: the client stays pending: without a pause, poll(2) would spin
            self._loop.forget(self._fd)
            self._retry = self._loop.after(RETRY_DELAY, self._listen)
            return
        sock.setblocking(False)
        self.connections.append(Connection(self._loop, sock, self._handler, self.connections))

    def close(self) -> None:
        """Stop listening, and close each connection as soon as its queued messages are sent.

        Pending requests are not answered.
        """
        if self._retry is not None:
            self._retry.cancel()
        self._loop.forget(self._fd)
        self._socket.close()
        for connection in list(self.connections):
            connection.finish()
        try:
            os.unlink(self._path)
        except OSError:
            pass  # harmless: a stale socket refuses connections

    def disconnect(self) -> None:
        """Close all connections at once, without sending their queued messages."""
        for connection in list(self.connections):
            connection.close()


class Connection:
    """A client's connection to a pod's control socket.

    Messages from the client are requests, and are passed to ``handler``.  When the client attaches
    to an app, ``on_frame`` is set.  After that, messages are frames, and are passed to ``on_frame``
    instead.  ``on_close`` is called when the connection is closed.
    """

    __slots__ = (
        *("_all", "_fd", "_finishing", "_handler", "_held", "_loop", "_queue", "_socket"),
        *("closed", "dropped", "on_close", "on_frame", "paused"),
    )

    def __init__(
        self, loop: Loop, sock: socket.socket, handler: Handler, connections: list[Connection]
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._fd = sock.fileno()
        self._handler = handler
        self._all = connections
        self._queue: list[bytes] = []
        self._held = 0
        self._finishing = False  # ignore further messages; close once the queue is empty
        self.dropped = 0  # bytes of output dropped because the client was too slow
        self.closed = False
        self.paused = False
        self.on_frame: Callable[[bytes], None] | None = None
        self.on_close: Callable[[], None] = _nothing
        self._watch()

    def _watch(self) -> None:
        events = (0 if self.paused else READABLE) | (WRITABLE if self._queue else 0)
        self._loop.watch(self._fd, events, self._ready)

    def pause(self, paused: bool) -> None:
        """Stop (True) or resume (False) reading messages from the client."""
        if paused != self.paused and not self.closed:
            self.paused = paused
            self._watch()

    def _ready(self, events: int) -> None:
        if events & WRITABLE:
            self._send_queue()
        if events & READABLE:
            self._receive()
        elif events & HUNG_UP:
            self.close()

    def _receive(self) -> None:
        try:
            message = self._socket.recv(LARGEST)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self.close()
        elif self._finishing:
            return
        elif self.on_frame is not None:
            self.on_frame(message)
        else:
            try:
                self._handler(self, json_files.parse(message, "the request"))
            except RuntimeFailure as failure:
                self.refuse(failure)
            except Exception as error:  # noqa: BLE001 - a faulty request must not end the pod
                self.refuse(unhandled("answer the request", error))

    def answer(self, value: dict[str, Any]) -> None:
        """Answer the client's request with ``value``, a JSON object."""
        self.send(json_files.text_of({"ok": True, **value}))

    def refuse(self, failure: RuntimeFailure) -> None:
        """Answer the client's request with the message and hint of ``failure``."""
        self.send(json_files.text_of({"ok": False, "error": failure.message, "hint": failure.hint}))

    def send(self, message: bytes, *, needed: bool = False) -> None:
        """Send a message to the client, or queue it if the client is slow.

        If more than HELD bytes (1 MiB) are queued, drop the message unless it is ``needed``.
        """
        if self.closed:
            return
        if self._held > HELD and not needed:
            self.dropped += len(message)
            return
        self._queue.append(message)
        self._held += len(message)
        self._send_queue()

    def _send_queue(self) -> None:
        try:
            while self._queue:
                self._socket.send(self._queue[0], socket.MSG_NOSIGNAL)
                self._held -= len(self._queue.pop(0))
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        if self._finishing and not self._queue:
            self.close()
            return
        self._watch()

    def finish(self) -> None:
        """Disconnect the client once all queued messages are sent."""
        self._finishing = True
        if not self._queue:
            self.close()
            return
        self.pause(False)  # read, to notice when the client disconnects

    def close(self) -> None:
        """Disconnect the client at once; queued messages are lost."""
        if self.closed:
            return
        self.closed = True
        self._loop.forget(self._fd)
        self._socket.close()
        self._all.remove(self)
        self.on_close()


def ask(sock: socket.socket, request: dict[str, Any]) -> dict[str, Any]:
    """Send ``request`` to a monitor over the connected socket ``sock`` and return its answer.

    Raises PodError with the monitor's error message if the request failed, HostError if the
    connection fails.
    """
    action = "send a request to the pod's monitor"
    try:
        sock.send(json_files.text_of(request), socket.MSG_NOSIGNAL)
        action = "receive the answer of the pod's monitor"
        message = sock.recv(LARGEST)
    except OSError as error:
        raise HostError(action, error) from None
    return answer_of(message)


def answer_of(message: bytes) -> dict[str, Any]:
    """Parse ``message``, a monitor's answer to a request, and return the JSON object.

    If the request failed, raises PodError with the monitor's error message.  An empty ``message``
    means that the monitor has closed the connection, and also raises PodError.
    """
    if not message:
        raise PodError("send a request to the pod's monitor: it exited before it answered")
    answer = json_files.parse(message, "the monitor's answer")
    if not answer.get("ok"):
        raise PodError(str(answer.get("error")), str(answer.get("hint") or ""))
    return answer


def _nothing() -> None:
    pass


def listen(path: str, kind: int, backlog: int) -> socket.socket:
    """Create a listening Unix socket of type ``kind`` (SOCK_*) at ``path``, with mode 0600.

    Raises HostError if the socket cannot be created.
    """
    try:
        listener = socket.socket(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC)
        old = os.umask(0o177)
        try:
            listener.bind(path)
            listener.listen(backlog)
        except OSError:
            listener.close()
            raise
        finally:
            os.umask(old)
    except OSError as error:
        raise HostError(f'listen on the socket "{path}"', error) from None
    return listener
