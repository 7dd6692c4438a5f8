"""Read tar archives from a stream, in the formats ustar, pax and GNU.

The standard library's tarfile treats a damaged header as the end of the archive, and reads pax
headers of any size into memory.  Both are unacceptable for untrusted layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ociruntime.base.errors import ImageError
from ociruntime.images.tar.decompression import Readable
from ociruntime.images.tar.tar_header import (
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
    number,
    parse_header,
    parse_records,
    quoted,
    whole,
)

LARGEST_EXTENSION = 1 << 20  # bytes of a file's pax and GNU headers (an xattr can be 64 kB)
_ZERO = bytes(BLOCK)
_EXTENSIONS = (PAX, PAX_GLOBAL, GNU_LONG_NAME, GNU_LONG_LINK)
_MOST_EXTENSIONS = 16  # pax and GNU headers of a single file
_MOST_GLOBALS = 100


class TarReader:
    """An iterator over the headers of a tar archive; ``read`` reads the current file's content.

    If ``stream`` has a method ``skip(count)``, the reader uses it to skip unread content.  Methods
    raise ImageError for damaged, truncated or unsupported archives.  ``what`` names the archive in
    error messages of ``read``.
    """

    def __init__(self, stream: Readable, what: str = "the archive") -> None:
        self.stream = stream
        self.what = what
        self.left = 0  # number of stored bytes of the current file that are not read yet
        self.padding = 0  # number of bytes that pad the current file's last block
        self.globals: dict[bytes, bytes] = {}  # records of global pax headers

    def __iter__(self) -> Iterator[Header]:
        while (header := self._next()) is not None:
            yield header

    def read(self, size: int) -> bytes:
        """Return up to ``size`` stored bytes of the current file's content; b"" at its end."""
        size = min(size, self.left)
        if not size:
            return b""
        data = self.stream.read(size)
        if not data:
            raise ImageError(f"{self.what} is truncated: it ends within a file")
        self.left -= len(data)
        return data

    def _next(self) -> Header | None:
        """Return the next file's header with its pax records applied; None at the end."""
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
                    raise ImageError(
                        f"the archive has more than {_MOST_GLOBALS} global pax records"
                    )
            elif header.type == GNU_LONG_NAME:
                long_name = content.partition(b"\0")[0]
            else:
                long_link = content.partition(b"\0")[0]
        else:
            raise ImageError(f"a file has more than {_MOST_EXTENSIONS} pax or GNU headers")
        header.name = long_name or header.name
        header.link = long_link or header.link
        # A record of the file replaces the global record; an empty value revokes it.
        apply_records(header, list((self.globals | dict(records)).items()))
        self._set_content(header)
        make_sparse(header, block, records, lambda: self._exactly(BLOCK))
        self.left = header.stored
        check_values(header)
        return header

    def _set_content(self, header: Header) -> None:
        """Set a header's size to 0 unless the file is regular: other files have no content."""
        if header.type not in (REGULAR, GNU_SPARSE):
            header.size = header.stored = 0
        self.padding = -header.stored % BLOCK

    def _extension(self, header: Header, room: int) -> bytes:
        """Return the content of a pax or GNU header, which precedes a file's own header.

        Raises ImageError if the content is larger than ``room`` bytes.
        """
        if header.size > room:
            hint = f"the limit is {LARGEST_EXTENSION} bytes for one file"
            raise ImageError(f"a pax or GNU header of {header.size} bytes is too large", hint)
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
        """Return the next header block, or None at the end of the archive.

        The archive ends with two zero blocks, or at EOF.  With ``at_start``, the block begins a new
        member.  Otherwise it follows a pax or GNU header, and the end of the archive is an error.
        """
        block = self._up_to(BLOCK)
        if block == _ZERO:
            block = self._up_to(BLOCK)
            if block not in (_ZERO, b""):
                raise ImageError("unexpected data after the zero block that ends the archive")
            block = b""
        if not block and at_start:
            return None
        if len(block) < BLOCK:
            raise ImageError("the archive is truncated: it ends within a header block")
        return block

    def _exactly(self, size: int) -> bytes:
        data = self._up_to(size)
        if len(data) < size:
            raise ImageError("the archive is truncated: it ends within a header or file")
        return data

    def _up_to(self, size: int) -> bytes:
        data = self.stream.read(size) if size else b""
        while len(data) < size and (more := self.stream.read(size - len(data))):
            data += more
        return data


# Sparse files in tar archives: the old GNU format, and GNU's three pax formats.
#
# Each format lists the pieces of the file that the archive stores, one after another.

MOST_PIECES = 100_000
_IN_HEADER = 4
_IN_BLOCK = 21

Piece = tuple[int, int]
ReadBlock = Callable[[], bytes]


def make_sparse(
    header: Header, block: bytes, records: list[Record], read_block: ReadBlock
) -> Header:
    """Set the pieces and the real size of a sparse file in ``header``; return ``header``.

    Does not change the header of a file that is not sparse.  ``block`` is the raw header,
    ``records`` are the file's pax records, and ``read_block()`` returns the next block of the
    archive.  Raises ImageError for an invalid sparse map.
    """
    if header.type == GNU_SPARSE:
        pieces, size = _of_gnu(block, read_block)
        header.type = REGULAR
    elif header.type == REGULAR and any(key.startswith(b"GNU.sparse.") for key, _ in records):
        pieces, size = _of_pax(header, records, read_block)
    else:
        return header
    _check(pieces, size, header)
    header.pieces, header.size = pieces, size
    return header


def _of_gnu(block: bytes, read_block: ReadBlock) -> tuple[list[Piece], int]:
    pieces = _table(block[386:], _IN_HEADER)
    more = block[482]
    while more:
        extension = read_block()
        pieces += _table(extension, _IN_BLOCK)
        more = extension[504]
        if len(pieces) > MOST_PIECES:
            raise _too_many()
    return pieces, number(block[483:495])


def _too_many() -> ImageError:
    return ImageError(f"a sparse file has more than {MOST_PIECES} pieces")


def _table(data: bytes, count: int) -> list[Piece]:
    """Parse the sparse map in an old GNU header: up to ``count`` pairs of offset and length."""
    pieces = []
    for at in range(0, count * 24, 24):
        if not data[at]:
            break
        pieces.append((number(data[at : at + 12]), number(data[at + 12 : at + 24])))
    return pieces


def _of_pax(
    header: Header, records: list[Record], read_block: ReadBlock
) -> tuple[list[Piece], int]:
    values = dict(records)
    if name := values.get(b"GNU.sparse.name"):
        header.name = whole(name)
    if values.get(b"GNU.sparse.major") == b"1":
        size = _number(values.get(b"GNU.sparse.realsize", b""))
        return _of_content(header, read_block), size
    size = _number(values.get(b"GNU.sparse.size", b""))
    if b"GNU.sparse.map" in values:
        text = values[b"GNU.sparse.map"]
        return _paired([_number(digits) for digits in text.split(b",")] if text else []), size
    keys = (b"GNU.sparse.offset", b"GNU.sparse.numbytes")
    return _paired([_number(value) for key, value in records if key in keys]), size


def _of_content(header: Header, read_block: ReadBlock) -> list[Piece]:
    """Parse a sparse map in the format GNU sparse 1.0; return the pieces.

    The map is stored in blocks before the data of the file, with one number per line.
    """
    lines: list[bytes] = []
    remainder = b""
    expected = 1
    while len(lines) < expected:
        if header.stored < BLOCK:
            raise ImageError(f'"{header.shown()}": truncated GNU sparse map')
        if len(remainder) > 20:
            raise ImageError(
                f'"{header.shown()}": invalid GNU sparse map: a number has more than 20 digits'
            )
        header.stored -= BLOCK
        *whole, remainder = (remainder + read_block()).split(b"\n")
        lines += whole
        if lines and expected == 1:
            count = _number(lines[0])
            if count > MOST_PIECES:
                raise _too_many()
            expected = 1 + 2 * count
    return _paired([_number(line) for line in lines[1:expected]])


def _paired(numbers: list[int]) -> list[Piece]:
    if len(numbers) % 2:
        raise ImageError("a sparse file's map has an offset without a length")
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _number(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > 18:
        raise ImageError(f"invalid number {quoted(digits)} in a sparse file's map")
    return int(digits)


def _check(pieces: list[Piece], size: int, header: Header) -> None:
    """Raise ImageError if the pieces of a sparse file are invalid.

    The pieces must be in order, and must not overlap or extend beyond ``size``, the end of the
    file.  Their lengths must add up to the number of stored bytes.
    """
    at = 0
    for offset, length in pieces:
        if offset < at or length < 0 or offset + length > size:
            message = "a piece of the sparse file overlaps another or extends past the file's end"
            raise ImageError(f'"{header.shown()}": {message}')
        at = offset + length
    if sum(length for _, length in pieces) != header.stored or size < 0:
        message = f"the pieces of the sparse file do not add up to {header.stored} bytes"
        raise ImageError(f'"{header.shown()}": {message}')
