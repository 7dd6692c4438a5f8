"""A client of CRI's streaming server: a WebSocket with Kubernetes' channels."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
from typing import Any
from urllib.parse import urlsplit

PROTOCOL = "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
BINARY, CLOSE, PING = 2, 8, 9
SECONDS = 30


class Stream:
    """A connection, with the data received so far on each channel."""

    def __init__(self, url: str) -> None:
        """Open the URL that Exec, Attach or PortForward has returned."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        address = (parts.hostname, parts.port or 80)
        self._socket = socket.create_connection(address, timeout=SECONDS)
        self._file = self._socket.makefile("rb")
        self.seen: dict[int, bytes] = {}
        self.open = True
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {parts.path}?{parts.query} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
            f"Sec-WebSocket-Protocol: {PROTOCOL}",
        ]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        status = self._file.readline()
        while self._file.readline() not in (b"\r\n", b""):
            pass
        assert b" 101 " in status, status

    def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel."""
        self._send(BINARY, bytes([channel]) + data)

    def resize(self, width: int, height: int) -> None:
        """Send the size of the terminal."""
        self.send(RESIZE, json.dumps({"Width": width, "Height": height}).encode())

    def _send(self, opcode: int, payload: bytes) -> None:
        # Clients have to mask; with zeros the payload stays as it is.
        size = len(payload)
        head = bytes([0x80 | opcode])
        head += bytes([0x80 | size]) if size < 126 else struct.pack(">BH", 0x80 | 126, size)
        self._socket.sendall(head + bytes(4) + payload)

    def receive(self) -> None:
        """Receive one message; raises TimeoutError if none arrives in time."""
        head = self._file.read(2)
        if len(head) < 2:
            self.open = False
            return
        size = head[1] & 0x7F
        if size == 126:
            (size,) = struct.unpack(">H", self._file.read(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", self._file.read(8))
        payload = self._file.read(size)
        opcode = head[0] & 0xF
        if opcode == CLOSE:
            self.open = False
        elif opcode == PING:
            self._send(PING + 1, payload)
        elif payload:
            self.seen[payload[0]] = self.seen.get(payload[0], b"") + payload[1:]

    def read_until(self, text: bytes, channel: int = STDOUT) -> bytes:
        """Receive until ``text`` has arrived on a channel; return all its data so far."""
        while text not in self.seen.get(channel, b""):
            assert self.open, self.seen
            self.receive()
        return self.seen[channel]

    def finish(self) -> dict[str, Any]:
        """Receive until the end; return the status of the command."""
        while self.open and ERROR not in self.seen:
            self.receive()
        found: dict[str, Any] = json.loads(self.seen[ERROR])
        return found

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def exit_status(status: dict[str, Any]) -> int:
    """Return the exit status from a command's status message."""
    if status["status"] == "Success":
        return 0
    assert status["reason"] == "NonZeroExitCode", status
    return int(status["details"]["causes"][0]["message"])
