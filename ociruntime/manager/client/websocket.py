"""The client's end of a WebSocket (RFC 6455) over the daemon's socket, without extensions."""

from __future__ import annotations

import _socket
import posix

from ociruntime.base.errors import RuntimeFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.manager.client.connection import Connection

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
FINAL = 0x80
MASKED = 0x80
CHUNK = 65536


def open_websocket(connection: Connection, path: str) -> WebSocket:
    """The WebSocket at ``path``, a path with its query.  Raises what ``connection`` does."""
    import binascii

    key = binascii.b2a_base64(posix.urandom(16), newline=False).decode()
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
    }
    answer = connection.open("GET", path, None, headers)
    if not answer.switched:
        answer.close()
        raise RuntimeFailure(f"ocid has no WebSocket at {path}")
    return WebSocket(answer.socket, answer.early)


class WebSocket:
    """Messages over ``sock``, which belongs to this object from now on.

    To send never waits: what the other end does not take yet is ``pending``, until ``flush``.
    """

    __slots__ = ("_buffer", "_flushing", "_kind", "_out", "_parts", "_socket", "is_closed")

    def __init__(self, sock: _socket.socket, early: bytes) -> None:
        """``early``: what has come over it already."""
        self._socket = sock
        self._parts: list[bytes] = []  # of a message that comes in several frames
        self._kind = BINARY  # told by the first of them
        self._buffer = early
        self._out: list[bytes] = []  # whole frames; of the first one maybe the rest
        self._flushing = False
        self.is_closed = False

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def pending(self) -> int:
        """Bytes that are still to be sent."""
        return sum(map(len, self._out))

    def send(self, kind: int, data: bytes) -> None:
        """A message of TEXT or BINARY, whole and in its turn also from a signal handler.

        Nothing happens when the other end has gone.
        """
        mask = posix.urandom(4)
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
        """Send as much of what is pending as goes without waiting."""
        if self._flushing:
            return  # a signal has come in the middle of it
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
            self._out.clear()  # its last messages are about to be read
        finally:
            self._flushing = False

    def receive(self) -> list[tuple[int, bytes]]:
        """Wait for something and return the messages that are whole: (TEXT or BINARY, data).

        Raises RuntimeFailure when the connection ends without a close.
        """
        messages = list(self._messages())
        if not messages and not self.is_closed:
            self._receive()
            messages = list(self._messages())
        return messages

    def _receive(self) -> None:
        data = self._socket.recv(CHUNK)
        if not data:
            raise RuntimeFailure("ocid has closed the connection", "its log says why")
        self._buffer += data

    def _frame_end(self) -> tuple[int, int] | None:
        """Where the first frame's data begins and ends, if it is whole."""
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
        found = []
        while (place := self._frame_end()) is not None:
            begin, end = place
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
                    found.append((self._kind, b"".join(self._parts)))
                    self._parts.clear()
        return found

    def close(self) -> None:
        """Let go of it; the other end sees that."""
        self._socket.close()
