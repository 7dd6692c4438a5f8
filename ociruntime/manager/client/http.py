"""A minimal HTTP/1.1 client (RFC 9112) for ocid on its Unix socket.

It replaces ``http.client``: importing that, with its mail parsers, takes as long as the rest of a
command (30 ms).
Each request opens its own connection.  The body of an answer may have a Content-Length, be chunked,
or end when the connection is closed.  The status 101 (Switching Protocols) is also supported.
"""

from __future__ import annotations

from ociruntime.base.errors import HostError, RuntimeFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Iterator

_LONGEST_HEAD = 65536  # bytes
_PIECE = 65536
_SWITCHED = 101
_TOO_LONG = f"read the answer from ocid: a header is longer than {_LONGEST_HEAD} bytes"
_CUT = "read the answer from ocid: the connection was closed before the end of the answer"


class Answer:
    """An HTTP answer: ``status``, ``headers`` (lower-case names), and a body.

    The body can be read only once.  After status 101, ``socket`` is the raw connection, and
    ``early`` contains the data that was received after the header.
    """

    __slots__ = ("early", "headers", "socket", "status")

    def __init__(self, socket: socket) -> None:
        """Read the answer's header from ``socket``.

        Raises HostError if the connection fails, RuntimeFailure if the header is invalid.
        """
        self.socket = socket
        head = b""
        while b"\r\n\r\n" not in head:
            piece = _receive(socket, _PIECE)
            if not piece:
                raise RuntimeFailure(
                    "read the answer from ocid: the connection was closed",
                    "if ocid is running, see its log",
                )
            if len(head) > _LONGEST_HEAD:
                raise RuntimeFailure(_TOO_LONG)
            head += piece
        text, _, self.early = head.partition(b"\r\n\r\n")
        first, *lines = text.decode("latin-1").split("\r\n")
        self.status = status_of(first)
        pairs = (line.partition(":") for line in lines)
        self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}

    @property
    def switched(self) -> bool:
        """True if the server has switched protocols (status 101)."""
        return self.status == _SWITCHED

    def whole(self) -> bytes:
        """Return the answer's body.

        Raises HostError if the connection fails, RuntimeFailure if the body is truncated or
        invalid.
        """
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """Yield parts of the answer's body as they arrive.

        Raises HostError if the connection fails, RuntimeFailure if the body is truncated or
        invalid.
        """
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            yield from self._chunks()
        elif "content-length" in self.headers:
            yield from self._exactly(_size(self.headers["content-length"], 10))
        else:
            while piece := self._some(_PIECE):
                yield piece

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the answer's body as they arrive, without newlines.

        Raises HostError if the connection fails, RuntimeFailure if the body is truncated or
        invalid.
        """
        incomplete = b""
        for piece in self.pieces():
            *full, incomplete = (incomplete + piece).split(b"\n")
            yield from full
        if incomplete:
            yield incomplete

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def _chunks(self) -> Iterator[bytes]:
        while True:
            size = _size(self._line().partition(b";")[0].decode("latin-1"), 16)
            if size == 0:
                self._line()
                return
            yield from self._exactly(size)
            self._line()

    def _line(self) -> bytes:
        while b"\r\n" not in self.early:
            piece = _receive(self.socket, _PIECE)
            if not piece or len(self.early) > _LONGEST_HEAD:
                raise RuntimeFailure(_TOO_LONG if piece else _CUT)
            self.early += piece
        line, _, self.early = self.early.partition(b"\r\n")
        return line

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self._some(min(size, _PIECE))
            if not piece:
                raise RuntimeFailure(_CUT)
            size -= len(piece)
            yield piece

    def _some(self, most: int) -> bytes:
        if self.early:
            piece, self.early = self.early[:most], self.early[most:]
            return piece
        return _receive(self.socket, most)


def _receive(socket: socket, most: int) -> bytes:
    """Receive up to ``most`` bytes; return b"" at the end of the connection's data.

    Raises HostError if the connection fails.
    """
    try:
        return socket.recv(most)
    except OSError as error:
        raise HostError(
            "read the answer from ocid", error, "was ocid stopped? see its log"
        ) from None


def _size(digits: str, base: int) -> int:
    """Parse a length in a header or chunk.  Raises RuntimeFailure if it is not a number."""
    try:
        size = int(digits, base)
    except ValueError:
        size = -1
    if size < 0:
        raise RuntimeFailure(f"read the answer from ocid: invalid length {digits[:80]!r}")
    return size


def status_of(line: str) -> int:
    """Return the status in a line like ``HTTP/1.1 200 OK``.

    Raises RuntimeFailure if the line is not an HTTP/1.x status line.
    """
    version, _, status_and_reason = line.partition(" ")
    if not version.startswith("HTTP/1.") or not status_and_reason[:3].isdigit():
        hint = "--socket must be the socket of ocid"
        raise RuntimeFailure(f"read the answer from ocid: not HTTP: {line[:80]!r}", hint)
    return int(status_and_reason[:3])


def request(method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
    """Return a whole HTTP/1.1 request, header and body, as bytes."""
    lines = [f"{method} {path} HTTP/1.1", "Host: ocid"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode("latin-1") + body


def quoted(text: str) -> str:
    """Percent-encode ``text`` as a path segment or a query value (RFC 3986)."""
    safe = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
    octets = text.encode("utf-8", "surrogateescape")
    return "".join([chr(octet) if octet in safe else f"%{octet:02X}" for octet in octets])


def chunked_request(method: str, path: str) -> bytes:
    """Return the header of an HTTP/1.1 request whose body is then sent with ``ChunkedBody``."""
    lines = [f"{method} {path} HTTP/1.1", "Host: ocid", "Connection: close"]
    lines += ["Content-Type: application/x-tar", "Transfer-Encoding: chunked"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


class ChunkedBody:
    """A writable file that sends data as the chunks of a request's body (RFC 9112, 7.1).

    ``close`` ends the body.
    """

    __slots__ = ("_socket",)

    def __init__(self, socket: socket) -> None:
        self._socket = socket

    def write(self, data: bytes) -> int:
        """Send ``data`` as one chunk of the body.  Raises OSError if the connection fails."""
        if data:  # an empty chunk would end the body
            self._socket.sendall(b"%x\r\n%b\r\n" % (len(data), bytes(data)))
        return len(data)

    def close(self) -> None:
        """Send the empty chunk that ends the body.  Raises OSError if the connection fails."""
        self._socket.sendall(b"0\r\n\r\n")
