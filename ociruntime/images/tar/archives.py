"""Read image archives: decompress them, and return their members as streams.

Members are never written to separate files.  ``ArchiveFiles`` writes a decompressed copy of a
compressed archive to an unlinked file.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import BinaryIO

from ociruntime.base.errors import HostError, ImageError, reason
from ociruntime.base.files import mode_of
from ociruntime.images.model.image_limits import Budget
from ociruntime.images.tar.decompression import CHUNK, MAGIC, Readable, compression_of, decompressed
from ociruntime.images.tar.tar_header import HARD_LINK, REGULAR, SYMLINK, Header
from ociruntime.images.tar.tar_reader import Piece, TarReader

_MOST_LINKS = 8
_MEMBER_COST = 300  # bytes of memory for each member, in addition to its name
_COMPRESSIONS = ("xz", "bzip2", "gzip", "zstd")


class Reading:
    """A stream that converts read errors to ImageErrors; ``what`` names it in their messages."""

    def __init__(self, stream: Readable, what: str) -> None:
        self.stream = stream
        self.what = what
        self._start = b""

    def read(self, size: int, /) -> bytes:
        if self._start:
            data, self._start = self._start[:size], self._start[size:]
            return data
        with read_errors_of(self.what):
            return self.stream.read(size)

    def peek(self) -> bytes:
        """Return the stream's first MAGIC bytes without consuming them; call before ``read``."""
        while len(self._start) < MAGIC:
            with read_errors_of(self.what):
                more = self.stream.read(MAGIC - len(self._start))
            if not more:
                break
            self._start += more
        return self._start

    def close(self) -> None:
        """Close the stream and the file that it reads."""
        close = getattr(self.stream, "close", None)
        if close:
            close()


@contextmanager
def read_errors_of(what: str) -> Iterator[None]:
    """Convert an OSError in the ``with`` block to an ImageError, ``read WHAT: REASON``."""
    try:
        yield
    except OSError as error:
        raise ImageError(f"read {what}: {reason(error)}") from None


def open_file(path: str) -> BinaryIO:
    """Open a regular file for reading, without blocking on a FIFO.

    Raises HostError if the file cannot be opened, ImageError if it is not a regular file.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise HostError(f'open "{path}"', error) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ImageError(f'open "{path}": not a regular file')
    return os.fdopen(fd, "rb")


def compression_of_file(file: BinaryIO, what: str) -> str:
    """Return the compression of an open file: "gzip", "zstd", "xz", "bzip2", or "" for none.

    Does not change the position in the file.  Raises ImageError if the file cannot be read;
    ``what`` names it in the error message.
    """
    with read_errors_of(what):
        start = file.read(MAGIC)
        file.seek(-len(start), os.SEEK_CUR)
    return compression_of(start)


def plain(file: BinaryIO, what: str, budget: Budget) -> Reading:
    """Return a stream of the decompressed content of ``file``.

    ``what`` names the archive in error messages.  Raises ImageError if the file cannot be read.
    """
    with read_errors_of(what):
        return Reading(decompressed(file, budget, what, _COMPRESSIONS), what)


def members(stream: Reading, budget: Budget) -> Iterator[tuple[Header, Content]]:
    """Yield (header, content) of each member of a tar archive; read the stream to its end.

    The content of a member can be read only until the next member is requested.  Raises ImageError
    if the archive is damaged.
    """
    reader = TarReader(stream, stream.what)
    for header in _headers(reader, stream.what, budget.fresh()):
        pieces = header.pieces
        yield header, Content(reader, budget, header.stored, header.size, pieces, stream.what)
    while stream.read(CHUNK):
        pass


def _headers(reader: TarReader, what: str, budget: Budget) -> Iterator[Header]:
    """Yield the headers of the archive ``what``; ``budget`` limits their number."""
    headers = iter(reader)
    while True:
        try:
            header = next(headers, None)
        except ImageError as error:
            if error.message.startswith(what):  # errors of the stream already name the archive
                raise
            message = f"read {what}: damaged tar archive: {error.message}"
            raise ImageError(message, error.hint) from None
        if header is None:
            return
        budget.take_file()
        yield header


class Content:
    """A stream of the content of a file in an archive, with zeros for holes of a sparse file.

    ``stream`` provides the bytes that the archive stores; ``stored`` is their number.  ``size`` is
    the size of the file in bytes, including holes.  ``pieces`` lists (offset, length) of the stored
    parts of a sparse file; None means that the file is not sparse.  ``budget`` limits the size of
    the holes.  ``what`` names the archive in error messages.
    """

    def __init__(
        self,
        stream: Readable,
        budget: Budget,
        stored: int,
        size: int,
        pieces: list[Piece] | None,
        what: str,
    ) -> None:
        self.stream = stream
        self.budget = budget
        self.what = what
        self._parts = _parts(stored, size, pieces)
        self._left = 0
        self._is_hole = False

    def read(self, size: int, /) -> bytes:
        while not self._left:
            part = next(self._parts, None)
            if part is None:
                return b""
            self._left, self._is_hole = part
        count = min(size, self._left, CHUNK)
        if self._is_hole:
            self.budget.take_hole(count)
        data = bytes(count) if self._is_hole else self.stream.read(count)
        self._left -= len(data)
        if not data:
            raise ImageError(f"{self.what} is truncated: it ends within a file")
        return data


def _parts(stored: int, size: int, pieces: list[Piece] | None) -> Iterator[tuple[int, bool]]:
    """Yield (length in bytes, whether it is a hole) for each part of a file, in order.

    ``size`` is the size of the file, ``pieces`` lists (offset, length) of the stored parts of a
    sparse file.  If ``pieces`` is None, the file is a single part of ``stored`` bytes.
    """
    if pieces is None:
        yield stored, False
        return
    at = 0
    for offset, length in pieces:
        yield offset - at, True
        yield length, False
        at = offset + length
    yield size - at, True


def member_name(name: str | bytes) -> str:
    """Return a tar member's normalised name: ``a/b`` for ``./a/b/``, "" for the archive's root."""
    text = name if isinstance(name, str) else name.decode("utf-8", "surrogateescape")
    return "/".join(part for part in text.split("/") if part not in ("", "."))


class DirectoryFiles:
    """The files below a directory, by relative path; has the same interface as ``ArchiveFiles``."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __str__(self) -> str:
        return f'"{self.path}"'

    def has(self, name: str) -> bool:
        """Return whether the regular file ``name`` exists.

        Raises HostError if that cannot be determined.
        """
        return stat.S_ISREG(mode_of(f"{self.path}/{name}"))

    def open(self, name: str) -> tuple[Reading, int]:
        """Open the file ``name``; return (stream, size in bytes).

        Raises HostError if the file cannot be opened, ImageError if it is missing or not a regular
        file.
        """
        if not self.has(name):
            raise ImageError(f'open "{self.path}/{name}": no such file')
        file = open_file(f"{self.path}/{name}")
        return Reading(file, f'"{self.path}/{name}"'), os.fstat(file.fileno()).st_size

    def close(self) -> None:
        """Do nothing: each stream closes its own file."""


class _File:
    """A seekable file that lets a ``TarReader`` skip contents instead of reading them."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.at = 0
        self.size = os.fstat(file.fileno()).st_size

    def read(self, size: int, /) -> bytes:
        data = self.file.read(size)
        self.at += len(data)
        return data

    def skip(self, count: int) -> None:
        if self.at + count > self.size:
            raise ImageError("the archive is truncated: it ends within a file")
        self.file.seek(count, os.SEEK_CUR)
        self.at += count


class _Range:
    """A stream of the bytes of ``file``, starting at the offset ``at``."""

    def __init__(self, file: BinaryIO, at: int) -> None:
        self.file = file
        self.at = at

    def read(self, size: int, /) -> bytes:
        data = os.pread(self.file.fileno(), size, self.at)
        self.at += len(data)
        return data


@dataclass(frozen=True)
class _Member:
    """A member of an archive; ``at`` is the offset of its content, ``link`` the target of a link.

    ``stored``, ``size`` and ``pieces`` have the same meaning as in ``Header``.
    """

    type: bytes
    at: int
    stored: int
    size: int
    link: str
    pieces: tuple[Piece, ...] | None


class ArchiveFiles:
    """The files in a tar archive, by name.

    A compressed archive is decompressed to an unlinked file in the directory ``tmp``.  The
    constructor raises HostError if a file cannot be opened or written, ImageError if the archive is
    damaged.
    """

    def __init__(self, path: str, tmp: str, budget: Budget) -> None:
        self.path = path
        self.budget = budget
        file = open_file(path)
        try:
            if compression_of_file(file, f'"{path}"'):
                file = _spooled(file, path, tmp, budget)
            self._file = file
            self._members: dict[str, _Member] = {}  # by normalised name
            with read_errors_of(f'"{path}"'):
                self._read_members(_File(file), budget.fresh())
        except BaseException:
            file.close()
            raise

    def _read_members(self, stream: _File, budget: Budget) -> None:
        for header in _headers(TarReader(stream), str(self), budget):
            name, link = member_name(header.name), header.link.decode("utf-8", "surrogateescape")
            budget.take_name(_MEMBER_COST + len(name) + len(link))
            pieces = None if header.pieces is None else tuple(header.pieces)
            for _ in pieces or ():
                budget.take_name(0)
            member = _Member(header.type, stream.at, header.stored, header.size, link, pieces)
            self._members[name] = member

    def __str__(self) -> str:
        return f'"{self.path}"'

    def has(self, name: str) -> bool:
        return member_name(name) in self._members

    def open(self, name: str) -> tuple[Reading, int]:
        """Open the file ``name``, following links in the archive; return (stream, size in bytes).

        Raises ImageError if the archive has no such file.
        """
        target = member_name(name)
        for _ in range(_MOST_LINKS):
            member = self._members.get(target)
            if member is None or member.type not in (SYMLINK, HARD_LINK):
                break
            beside = os.path.dirname(target) if member.type == SYMLINK else ""
            target = member_name(os.path.normpath(os.path.join(beside, member.link)))
        if member is None or member.type != REGULAR:
            raise ImageError(f'open "{name}" in the archive {self}: no such file')
        pieces = None if member.pieces is None else list(member.pieces)
        stored = _Range(self._file, member.at)
        content = Content(stored, self.budget, member.stored, member.size, pieces, str(self))
        return Reading(content, f'"{name}" in {self}'), member.size

    def close(self) -> None:
        self._file.close()


Files = DirectoryFiles | ArchiveFiles


def read_small(files: Files, name: str, longest: int) -> bytes:
    """Return the content of the file ``name`` in an archive or directory.

    Raises HostError if the file cannot be read, ImageError if it is missing or larger than
    ``longest`` bytes.
    """
    stream, size = files.open(name)
    with closing(stream):
        if size > longest:
            raise ImageError(f"read {files}: {name} has {size} bytes; the limit is {longest}")
        data = b""
        while more := stream.read(longest + 1 - len(data)):
            data += more
        return data


def _spooled(file: BinaryIO, path: str, tmp: str, budget: Budget) -> BinaryIO:
    """Decompress ``file`` to a new, unlinked file in the directory ``tmp``; return the new file.

    Closes ``file``, whose path is ``path``.  Raises HostError if the new file cannot be written,
    ImageError if ``file`` is damaged or a limit is exceeded.
    """
    with file:
        stream = plain(file, f'"{path}"', budget)
        target = None
        try:
            target = tempfile.TemporaryFile(dir=tmp)
            while chunk := stream.read(CHUNK):
                budget.take_bytes(len(chunk))
                target.write(chunk)
            target.seek(0)
        except BaseException as error:
            if target:
                target.close()
            if isinstance(error, OSError):
                raise HostError(f'decompress "{path}" to a file in "{tmp}"', error) from None
            raise
    return target
