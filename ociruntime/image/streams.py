"""Streams of layers: what compressed them is undone as they are read, a piece at a time."""

from __future__ import annotations

import zlib
from typing import Any, Protocol

from ociruntime.errors import ImageError

CHUNK = 1 << 18
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)  # magic numbers of zstd's frames without content
_LARGEST_WINDOW = 1 << 27  # bytes of memory that a zstd frame may ask for, what zstd itself allows


class Readable(Protocol):
    """A stream of bytes; ``read`` returns none at its end, and may return fewer than wanted."""

    def read(self, size: int, /) -> bytes: ...


class Counted:
    """A stream that knows how many bytes were read of it."""

    def __init__(self, stream: Readable) -> None:
        self.stream = stream
        self.count = 0

    def read(self, size: int, /) -> bytes:
        data = self.stream.read(size)
        self.count += len(data)
        return data


class _Peeked:
    """A stream with ``start`` put back before it."""

    def __init__(self, start: bytes, stream: Readable) -> None:
        self.start = start
        self.stream = stream

    def read(self, size: int, /) -> bytes:
        if not self.start:
            return self.stream.read(size)
        data, self.start = self.start[:size], self.start[size:]
        return data


class Gunzip:
    """Plain bytes of a gzip stream of one or more members.

    ``read`` raises ImageError where it is damaged or ends too early.
    """

    def __init__(self, stream: Readable) -> None:
        self.stream = stream
        self.input = b""
        self.member: Any = zlib.decompressobj(wbits=31)
        self.first = True

    def read(self, size: int, /) -> bytes:
        while True:
            if self.member.eof and not self._next_member():
                return b""
            if not self.input:
                self.input = self.stream.read(CHUNK)
            at_end = not self.input
            try:
                data: bytes = self.member.decompress(self.input, size)
            except zlib.error as error:
                raise ImageError(f"the layer's gzip data is damaged: {error}") from None
            self.input = self.member.unconsumed_tail
            if data:
                return data
            if at_end and not self.member.eof:
                raise ImageError("the layer's gzip data ends too early")

    def _next_member(self) -> bool:
        """Whether another one begins; zeros behind the last one are padding."""
        rest: bytes = self.member.unused_data.lstrip(b"\0")
        while not rest:
            data = self.stream.read(CHUNK)
            if not data:
                return False
            rest = data.lstrip(b"\0")
        self.input = rest
        self.member = zlib.decompressobj(wbits=31)
        return True


class Unzstd:
    """Plain bytes of a zstd stream of one or more frames.

    ``read`` raises ImageError where it is damaged; that it ends too early, the digest of the
    plain bytes shows.
    """

    def __init__(self, stream: Readable) -> None:
        try:
            import zstandard
        except ImportError:
            hint = "pip install zstandard, or the package python3-zstandard"
            raise ImageError("a layer is compressed with zstd: zstandard is needed", hint) from None
        self.error = zstandard.ZstdError
        decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
        self.reader = decompressor.stream_reader(
            stream,  # type: ignore[arg-type]  # read() is all that it uses
            read_size=CHUNK,
            read_across_frames=True,
        )

    def read(self, size: int, /) -> bytes:
        try:
            return self.reader.read(size)
        except self.error as error:
            raise ImageError(f"the layer's zstd data is damaged: {error}") from None


def decompressed(stream: Readable) -> Readable:
    """The plain bytes, whether ``stream`` is gzip, zstd or neither: its first bytes tell.

    Media types are not asked: some builders call a plain layer a compressed one.  What comes out
    is compared with its own digest anyway.  Raises ImageError.
    """
    start = b""
    while len(start) < 4 and (more := stream.read(4 - len(start))):
        start += more
    whole = _Peeked(start, stream)
    if start.startswith(_GZIP):
        return Gunzip(whole)
    if start == _ZSTD or int.from_bytes(start, "little") in _SKIPPABLE:
        return Unzstd(whole)
    return whole
