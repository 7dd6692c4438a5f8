"""Decompress gzip, zstd, xz and bzip2 streams incrementally, within the limits of a ``Budget``."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Protocol

from ociruntime.base.errors import ImageError
from ociruntime.images.model.image_limits import FILE, Budget

CHUNK = 1 << 18
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_XZ = b"\xfd7zXZ\0"
_BZIP2 = b"BZh"
MAGIC = 6  # number of bytes needed to detect a compression
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)  # magic numbers of zstd's skippable frames
# Bytes of input for each call of a decompressor.  A decompressor copies unused input, so a part of
# a few bytes must not get a whole chunk.
_FIRST_PIECE, _LARGEST_PIECE = 1 << 10, 1 << 16
_LZMA_STATE = 1 << 20  # bytes of memory that liblzma needs in addition to the dictionary


class Readable(Protocol):
    """A stream of bytes; ``read`` may return fewer bytes than requested, and b"" at the end."""

    def read(self, size: int, /) -> bytes: ...


class Counted:
    """A wrapper around a stream that counts the bytes read through it."""

    def __init__(self, stream: Readable) -> None:
        self.stream = stream
        self.count = 0

    def read(self, size: int, /) -> bytes:
        data = self.stream.read(size)
        self.count += len(data)
        return data


class _Peeked:
    """A stream that puts ``start``, the bytes already read from ``stream``, back in front of it."""

    def __init__(self, start: bytes, stream: Readable) -> None:
        self.start = start
        self.stream = stream

    def read(self, size: int, /) -> bytes:
        if not self.start:
            return self.stream.read(size)
        data, self.start = self.start[:size], self.start[size:]
        return data


class _Pieces:
    """Read the compressed bytes of ``stream`` in pieces.

    Within a part, such as a gzip member, each piece is twice as large as the previous piece, up to
    a limit.
    """

    def __init__(self, stream: Readable) -> None:
        self.stream = stream
        self.data = b""
        self.at = 0
        self.size = _FIRST_PIECE

    def next(self) -> bytes:
        if self.at == len(self.data):
            self.data, self.at = self.stream.read(CHUNK), 0
        piece = self.data[self.at : self.at + self.size]
        self.at += len(piece)
        self.size = min(2 * self.size, _LARGEST_PIECE)
        return piece

    def put_back(self, count: int) -> None:
        """Put back the last ``count`` bytes of a piece: they are the start of the next part."""
        self.at -= count
        self.size = _FIRST_PIECE

    def skip_zeros(self) -> bool:
        """Skip the zeros that pad compressed data; return whether other bytes follow."""
        while True:
            if self.at == len(self.data):
                self.data, self.at = self.stream.read(CHUNK), 0
                if not self.data:
                    return False
            elif self.data[self.at]:
                return True
            else:
                remainder = self.data[self.at : self.at + self.size]
                self.at += len(remainder) - len(remainder.lstrip(b"\0"))
                self.size = min(2 * self.size, _LARGEST_PIECE)

    def starts_with(self, magic: bytes) -> bool:
        """Return whether the next compressed bytes are ``magic``, without consuming them."""
        while len(self.data) - self.at < len(magic) and (more := self.stream.read(CHUNK)):
            self.data, self.at = self.data[self.at :] + more, 0
        return self.data.startswith(magic, self.at)


class Parts:
    """A stream of the decompressed bytes of gzip, xz or bzip2 data, which has one or more parts.

    A part is a gzip member, an xz stream or a bzip2 stream.  ``read`` raises ImageError if the data
    is damaged or truncated, or if it has more parts than the limit ``files`` allows.  Common
    programs write at most one part for each file of an archive.  ``what`` names the data in error
    messages.
    """

    kind = ""
    magic = b""  # first bytes of a part; other data after a part is ignored, as gzip and xz do

    def __init__(self, stream: Readable, budget: Budget, what: str) -> None:
        self.pieces = _Pieces(stream)
        self.budget = budget
        self.what = what
        self.count = 1
        self.part = self.new()

    def new(self) -> Any:  # noqa: ANN401 - a decompressor of the standard library
        """Return a new decompressor for one part."""
        raise NotImplementedError

    def step(self, size: int) -> bytes:
        """Return up to ``size`` decompressed bytes.

        Raises the decompressor's own exceptions, such as zlib.error, if the data is damaged.
        """
        data: bytes = self.part.decompress(self._input(), size)
        return data

    def _input(self) -> bytes:
        """Return the next compressed bytes if the decompressor needs input, otherwise b""."""
        return self._piece() if self.part.needs_input else b""

    def _piece(self) -> bytes:
        piece = self.pieces.next()
        if not piece:
            raise ImageError(f"{self.what}: the {self.kind} data is truncated")
        return piece

    def read(self, size: int, /) -> bytes:
        while True:
            if self.part.eof and not self._next_part():
                return b""
            try:
                data = self.step(size)
            except (ImageError, MemoryError):
                raise
            except (OSError, EOFError, ValueError) as error:
                raise self.damage(error) from None
            except Exception as error:
                if type(error).__module__ not in ("zlib", "_lzma"):
                    raise
                raise self.damage(error) from None
            if data:
                return data

    def damage(self, error: Exception) -> ImageError:
        """Return the ImageError to raise for ``error``, an exception of the decompressor."""
        return ImageError(f"{self.what}: the {self.kind} data is damaged: {error}")

    def _next_part(self) -> bool:
        """Start decompressing the next part; return False at the end of the data."""
        self.pieces.put_back(len(self.part.unused_data))
        if not self.pieces.skip_zeros():
            return False
        if self.magic and not self.pieces.starts_with(self.magic):
            return False
        self.pieces.size = _FIRST_PIECE
        self.count += 1
        most = self.budget.limits.files
        if self.count > most:
            hint = f'limited by "files" in {FILE}'
            raise ImageError(f"{self.what}: the {self.kind} data has more than {most} parts", hint)
        self.part = self.new()
        return True


class Gunzip(Parts):
    """A stream of the decompressed bytes of gzip data; only padding may follow its last member."""

    kind = "gzip"
    full = False

    def new(self) -> Any:  # noqa: ANN401
        return zlib.decompressobj(wbits=31)

    def step(self, size: int) -> bytes:
        piece = self.part.unconsumed_tail
        if not piece and not self.full:
            piece = self._piece()
        data: bytes = self.part.decompress(piece, size)
        self.full = len(data) == size  # more output may be available without further input
        return data


class Unxz(Parts):
    """A stream of the decompressed bytes of xz data; the budget limits the dictionary's size."""

    kind, magic = "xz", _XZ

    def new(self) -> Any:  # noqa: ANN401
        import lzma

        most = self.budget.limits.dictionary + _LZMA_STATE
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=most)

    def damage(self, error: Exception) -> ImageError:
        if "limit exceeded" in str(error):
            return _dictionary(self.what, self.kind, self.budget)
        return super().damage(error)


class Unbzip2(Parts):
    """A stream of the decompressed bytes of bzip2 data; it needs at most 4 MB of memory."""

    kind, magic = "bzip2", _BZIP2

    def new(self) -> Any:  # noqa: ANN401
        import bz2

        return bz2.BZ2Decompressor()


class Unzstd:
    """A stream of the decompressed bytes of zstd data, which has one or more frames.

    ``read`` raises ImageError for damaged data.  It does not detect truncation: callers verify the
    digest of the decompressed bytes.
    """

    def __init__(self, stream: Readable, budget: Budget, what: str) -> None:
        try:
            import zstandard
        except ImportError:
            hint = "pip install zstandard, or install the package python3-zstandard"
            message = "zstd compression needs the Python package zstandard"
            raise ImageError(f"{what}: {message}", hint) from None
        self.error = zstandard.ZstdError
        self.budget = budget
        self.what = what
        window = min(budget.limits.dictionary, (1 << 31) - 1)
        decompressor = zstandard.ZstdDecompressor(max_window_size=window)
        self.reader = decompressor.stream_reader(
            stream,  # type: ignore[arg-type]  # only read() is used
            read_size=CHUNK,
            read_across_frames=True,
        )

    def read(self, size: int, /) -> bytes:
        try:
            return self.reader.read(size)
        except self.error as error:
            if "too much memory" in str(error):
                raise _dictionary(self.what, "zstd", self.budget) from None
            raise ImageError(f"{self.what}: the zstd data is damaged: {error}") from None


def _dictionary(what: str, kind: str, budget: Budget) -> ImageError:
    most = budget.limits.dictionary
    hint = f'limited by "dictionary" in {FILE}'
    return ImageError(f"{what}: the {kind} data needs a dictionary larger than {most} bytes", hint)


class _Metered:
    """A wrapper around the decompressed stream ``plain`` that detects decompression bombs.

    ``stored`` counts the compressed bytes that have been read; ``budget`` limits the ratio.
    """

    def __init__(self, plain: Readable, stored: Counted, budget: Budget, what: str) -> None:
        self.plain = plain
        self.stored = stored
        self.budget = budget
        self.what = what
        self.count = 0
        self.buffer = b""
        self.at = 0

    def read(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes from a buffer, because callers read many small headers."""
        if self.at == len(self.buffer):
            self.buffer, self.at = self.plain.read(CHUNK), 0
            self.count += len(self.buffer)
            self.budget.check_ratio(self.count, self.stored.count, self.what)
        data = self.buffer[self.at : self.at + size]
        self.at += len(data)
        return data


_KINDS: tuple[tuple[str, bytes, Callable[[Readable, Budget, str], Readable]], ...] = (
    ("xz", _XZ, Unxz),
    ("bzip2", _BZIP2, Unbzip2),
    ("gzip", _GZIP, Gunzip),
    ("zstd", _ZSTD, Unzstd),
)
OF_LAYERS = ("gzip", "zstd")


def compression_of(start: bytes) -> str:
    """Return the compression of a stream: "gzip", "zstd", "xz", "bzip2", or "" for none.

    ``start`` contains the first MAGIC bytes of the stream.
    """
    for kind, magic, _ in _KINDS:
        if start.startswith(magic):
            return kind
    if len(start) > 3 and int.from_bytes(start[:4], "little") in _SKIPPABLE:
        return "zstd"
    return ""


def decompressed(
    stream: Readable,
    budget: Budget,
    what: str = "the layer",
    kinds: tuple[str, ...] = OF_LAYERS,
) -> Readable:
    """Return a stream of the decompressed bytes of ``stream``.

    Detects the compression from the first bytes, not from the media type, because some builders
    declare an uncompressed layer as compressed; callers verify the content's digest.  If the data
    is not compressed with one of ``kinds``, the returned stream has the data unchanged.

    Reading from the result raises ImageError for damaged data, or if a limit of ``budget`` is
    exceeded.  ``what`` names the stream in error messages.
    """
    start = b""
    while len(start) < MAGIC and (more := stream.read(MAGIC - len(start))):
        start += more
    whole = _Peeked(start, stream)
    compression = compression_of(start)
    for kind, _, make in _KINDS:
        if kind == compression and kind in kinds:
            stored = Counted(whole)
            return _Metered(make(stored, budget, what), stored, budget, what)
    return whole
