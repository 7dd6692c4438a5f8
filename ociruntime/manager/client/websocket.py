"""A WebSocket client (RFC 6455, without extensions) over the daemon's socket."""

from __future__ import annotations

import _socket
import os

from ociruntime.base.errors import HostError, RuntimeFailure
from ociruntime.manager.client.connection import Connection

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
FINAL = 0x80
MASKED = 0x80
CHUNK = 65536


def open_websocket(connection: Connection, path: str) -> WebSocket:
    """Open the WebSocket at the API path ``path`` and return it.

    Raises the errors of ``Connection``, and RuntimeFailure if ocid refuses the upgrade.
    """
    import binascii

    key = binascii.b2a_base64(os.urandom(16), newline=False).decode()
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
    }
    answer = connection.open("GET", path, None, headers)
    if not answer.switched:
        answer.close()
        raise RuntimeFailure(f'open a WebSocket at "{path}": ocid refused the upgrade')
    return WebSocket(answer.socket, answer.early)


class WebSocket:
    """A WebSocket over the connected socket ``sock``, which ``close`` closes.

    Sending never blocks: data that the daemon does not accept yet stays ``pending`` until
    ``flush`` is called.
    """

    __slots__ = ("_buffer", "_flushing", "_kind", "_out", "_parts", "_socket", "is_closed")

    def __init__(self, sock: _socket.socket, early: bytes) -> None:
        """Wrap a connection; ``early`` is the data that was received after the HTTP header."""
        self._socket = sock
        self._parts: list[bytes] = []  # the payloads of a fragmented message
        self._kind = BINARY  # opcode of the fragmented message, from its first fragment
        self._buffer = early
        self._out: list[bytes] = []  # unsent frames; the first may be partly sent
        self._flushing = False
        self.is_closed = False

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def pending(self) -> int:
        """The number of unsent bytes."""
        return sum(map(len, self._out))

    def send(self, kind: int, data: bytes) -> None:
        """Send a message of kind TEXT or BINARY, or queue what cannot be sent yet.

        A signal handler may call this method: frames never interleave.  If the daemon has closed
        the connection, the message is dropped.
        """
        mask = os.urandom(4)
        size = len(data)
        if size < 126:
            head = bytes([FINAL | kind, MASKED | size])
        elif size < 1 << 16:
            head = bytes([FINAL | kind, MASKED | 126]) + size.to_bytes(2, "big")
        else:
            head = bytes([FINAL | kind, MASKED | 127]) + size.to_bytes(8, "big")
        pad = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")).to_bytes(size, "big")
        self._out.append(head + mask + masked)
        self.flush()

    def flush(self) -> None:
        """Send as many pending bytes as possible without blocking."""
        if self._flushing:
            return  # called from a signal handler that interrupted a flush
        self._flushing = True
        try:
            while self._out:
                sent = self._socket.send(self._out[0], _socket.MSG_DONTWAIT)
                if sent == len(self._out[0]):
                    del self._out[0]
                else:
                    self._out[0] = self._out[0][sent:]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            self._out.clear()  # not an error: the daemon's last messages can still be received
        finally:
            self._flushing = False

    def receive(self) -> list[tuple[int, bytes]]:
        """Wait for data; return the complete messages as [(TEXT or BINARY, data)].

        Raises RuntimeFailure if the daemon closes the connection without a close frame, HostError
        if the connection fails.
        """
        messages = list(self._messages())
        if not messages and not self.is_closed:
            self._receive()
            messages = list(self._messages())
        return messages

    def _receive(self) -> None:
        try:
            data = self._socket.recv(CHUNK)
        except OSError as error:
            raise HostError("receive from ocid", error, "see ocid's log") from None
        if not data:
            raise RuntimeFailure("receive from ocid: it closed the connection", "see ocid's log")
        self._buffer += data

    def _payload_bounds(self) -> tuple[int, int] | None:
        """Return (begin, end) of the payload of the first frame in ``_buffer``.

        Returns None if the frame is incomplete.
        """
        if len(self._buffer) < 2:
            return None
        size, begin = self._buffer[1] & 0x7F, 2
        if size > 125:
            begin = 4 if size == 126 else 10
            if len(self._buffer) < begin:
                return None
            size = int.from_bytes(self._buffer[2:begin], "big")
        return (begin, begin + size) if len(self._buffer) >= begin + size else None

    def _messages(self) -> list[tuple[int, bytes]]:
        messages = []
        while (bounds := self._payload_bounds()) is not None:
            begin, end = bounds
            first, data = self._buffer[0], self._buffer[begin:end]
            self._buffer = self._buffer[end:]
            kind = first & 0x0F
            if kind == CLOSE:
                self.is_closed = True
                self.send(CLOSE, data[:2])
            elif kind == PING:
                self.send(PONG, data)
            elif kind != PONG:
                self._kind = kind or self._kind
                self._parts.append(data)
                if first & FINAL:
                    messages.append((self._kind, b"".join(self._parts)))
                    self._parts.clear()
        return messages

    def close(self) -> None:
        """Close the connection without a close frame."""
        self._socket.close()
