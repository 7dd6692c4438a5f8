"""Read a tar archive from a stream, in the formats ustar, pax and GNU; names are bytes.

The standard library's tarfile takes a damaged header for the end of the archive, and reads extended
headers of any size into memory; both are unacceptable for untrusted layers.
"""

from __future__ import annotations

from collections.abc import Iterator

from ociruntime.base.errors import ImageError
from ociruntime.images.tar.header import (
    BLOCK,
    GNU_LONG_LINK,
    GNU_LONG_NAME,
    GNU_SPARSE,
    PAX,
    PAX_GLOBAL,
    REGULAR,
    Header,
    Record,
    apply_records,
    check_values,
    parse_header,
    parse_records,
)
from ociruntime.images.tar.sparse import make_sparse
from ociruntime.images.tar.streams import Readable

LARGEST_EXTENSION = 1 << 20  # bytes of a file's extended headers (an attribute can have 64 kB)
_ZERO = bytes(BLOCK)
_EXTENSIONS = (PAX, PAX_GLOBAL, GNU_LONG_NAME, GNU_LONG_LINK)
_MOST_EXTENSIONS = 16  # for a single file
_MOST_GLOBALS = 100


class TarReader:
    """An iterator over the headers of an archive; ``read`` reads the current file's content.

    If ``stream`` has a method ``skip``, unread content is skipped with it.  Raises ImageError for
    damaged, truncated or unsupported archives.
    """

    def __init__(self, stream: Readable) -> None:
        self.stream = stream
        self.left = 0  # stored bytes of the current file
        self.padding = 0
        self.globals: dict[bytes, bytes] = {}

    def __iter__(self) -> Iterator[Header]:
        while (header := self._next()) is not None:
            yield header

    def read(self, size: int) -> bytes:
        """Return up to ``size`` stored bytes of the current file; none at its end."""
        wanted = min(size, self.left)
        if not wanted:
            return b""
        data = self.stream.read(wanted)
        if not data:
            raise ImageError("the archive ends in the middle of a file")
        self.left -= len(data)
        return data

    def _next(self) -> Header | None:
        self._finish_file()
        records: list[Record] = []
        long_name = long_link = b""
        room = LARGEST_EXTENSION
        for count in range(_MOST_EXTENSIONS):
            block = self._block(at_start=not count)
            if block is None:
                return None
            header = parse_header(block)
            if header.type not in _EXTENSIONS:
                break
            content = self._extension(header, room)
            room -= len(content)
            if header.type == PAX:
                records += parse_records(content)
            elif header.type == PAX_GLOBAL:
                self.globals |= dict(parse_records(content))
                if len(self.globals) > _MOST_GLOBALS:
                    raise ImageError("the archive has too many global headers")
            elif header.type == GNU_LONG_NAME:
                long_name = content.partition(b"\0")[0]
            else:
                long_link = content.partition(b"\0")[0]
        else:
            raise ImageError("a file in the archive has too many headers")
        header.name = long_name or header.name
        header.link = long_link or header.link
        apply_records(header, [*self.globals.items(), *records])
        self._set_content(header)
        make_sparse(header, block, records, lambda: self._exactly(BLOCK))
        self.left = header.stored
        check_values(header)
        return header

    def _set_content(self, header: Header) -> None:
        """Set the content's length; only regular files have content, whatever the size field."""
        if header.type not in (REGULAR, GNU_SPARSE):
            header.size = header.stored = 0
        self.padding = -header.stored % BLOCK

    def _extension(self, header: Header, room: int) -> bytes:
        if header.size > room:
            hint = f"a file's may have {LARGEST_EXTENSION}"
            raise ImageError(f"the archive has an extended header of {header.size} bytes", hint)
        content = self._exactly(header.size)
        self._exactly(-header.size % BLOCK)
        return content

    def _finish_file(self) -> None:
        skip = getattr(self.stream, "skip", None)
        if skip:
            skip(self.left + self.padding)
            self.left = self.padding = 0
        while self.left:
            self.read(1 << 18)
        self._exactly(self.padding)
        self.padding = 0

    def _block(self, *, at_start: bool) -> bytes | None:
        """Return the next header; None at the end, which is two zero blocks or EOF."""
        block = self._up_to(BLOCK)
        if block == _ZERO:
            block = self._up_to(BLOCK)
            if block not in (_ZERO, b""):
                raise ImageError("the archive has data after its end")
            block = b""
        if not block and at_start:
            return None
        if len(block) < BLOCK:
            raise ImageError("the archive ends in the middle of a header")
        return block

    def _exactly(self, size: int) -> bytes:
        data = self._up_to(size)
        if len(data) < size:
            raise ImageError("the archive ends too early")
        return data

    def _up_to(self, size: int) -> bytes:
        data = self.stream.read(size) if size else b""
        while len(data) < size and (more := self.stream.read(size - len(data))):
            data += more
        return data
