"""Sparse files in tar archives: the old GNU format, and GNU's three pax formats.

Each lists the pieces of the file that are stored, consecutively, in the archive.
"""

from __future__ import annotations

from collections.abc import Callable

from ociruntime.base.errors import ImageError
from ociruntime.images.tar.header import BLOCK, GNU_SPARSE, REGULAR, Header, Record, number, whole

MOST_PIECES = 100_000
_IN_HEADER = 4
_IN_BLOCK = 21

Piece = tuple[int, int]
ReadBlock = Callable[[], bytes]


def make_sparse(
    header: Header, block: bytes, records: list[Record], read_block: ReadBlock
) -> Header:
    """Return the header, with the pieces if the file is sparse.

    ``block`` is the raw header, ``read_block`` returns the next block of the archive.
    Raises ImageError.
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
            raise ImageError(f"a sparse file in the archive has more than {MOST_PIECES} pieces")
    return pieces, number(block[483:495])


def _table(data: bytes, count: int) -> list[Piece]:
    found = []
    for at in range(0, count * 24, 24):
        if not data[at]:
            break
        found.append((number(data[at : at + 12]), number(data[at + 12 : at + 24])))
    return found


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
    """Parse the map of version 1.0: decimal numbers, one a line, in blocks before the content."""
    lines: list[bytes] = []
    rest = b""
    wanted = 1
    while len(lines) < wanted:
        if header.stored < BLOCK:
            raise ImageError("the list of a sparse file's pieces ends too early")
        if len(rest) > 20:
            raise ImageError("the list of a sparse file's pieces is damaged")
        header.stored -= BLOCK
        *whole, rest = (rest + read_block()).split(b"\n")
        lines += whole
        if lines and wanted == 1:
            count = _number(lines[0])
            if count > MOST_PIECES:
                raise ImageError(f"a sparse file in the archive has more than {MOST_PIECES} pieces")
            wanted = 1 + 2 * count
    return _paired([_number(line) for line in lines[1:wanted]])


def _paired(numbers: list[int]) -> list[Piece]:
    if len(numbers) % 2:
        raise ImageError("the list of a sparse file's pieces is damaged")
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _number(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > 18:
        raise ImageError("a number in a sparse file's header is damaged")
    return int(digits)


def _check(pieces: list[Piece], size: int, header: Header) -> None:
    """Check that the pieces are in order, inside the file, and add up to the stored bytes."""
    at = 0
    for offset, length in pieces:
        if offset < at or length < 0 or offset + length > size:
            raise ImageError(f'the pieces of the sparse file "{header.shown()}" do not fit')
        at = offset + length
    if sum(length for _, length in pieces) != header.stored or size < 0:
        raise ImageError(f'the pieces of the sparse file "{header.shown()}" are not all there')
