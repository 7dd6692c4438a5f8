"""Archives as files: what compressed them is undone, members are read safely.

Nothing is extracted here: the members that are wanted are read as streams.
"""

from __future__ import annotations

import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, BinaryIO

from ociruntime.errors import HostError, ImageError, reason
from ociruntime.image.streams import CHUNK, Readable, decompressed
from ociruntime.image.tar_reader import LARGEST_EXTENSION

_XZ, _BZIP2, _GZIP, _ZSTD = b"\xfd7zXZ\0", b"BZh", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_MAGIC = 6
_MOST_MEMBERS = 1 << 20
_MOST_LINKS = 8
_EXTENSIONS = (*tarfile.GNU_TYPES[:2], tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
# What the standard library raises for it; it reads one header behind another by recursion.
_DAMAGE = (tarfile.TarError, EOFError, ValueError, ArithmeticError, LookupError, RecursionError)


class Reading:
    """A stream whose failures are those of the archive ``what``: read() raises ImageError."""

    def __init__(self, stream: Readable, what: str) -> None:
        self.stream = stream
        self.what = what
        self._start = b""

    def read(self, size: int, /) -> bytes:
        if self._start:
            data, self._start = self._start[:size], self._start[size:]
            return data
        with faults_of(self.what):
            return self.stream.read(size)

    def peek(self) -> bytes:
        """The first bytes, as many as ``compression_of`` wants; before anything is read."""
        while len(self._start) < _MAGIC:
            with faults_of(self.what):
                more = self.stream.read(_MAGIC - len(self._start))
            if not more:
                break
            self._start += more
        return self._start

    def close(self) -> None:
        """Also the file, if the stream is one."""
        close = getattr(self.stream, "close", None)
        if close:
            close()


@contextmanager
def faults_of(what: str) -> Iterator[None]:
    """Everything that a damaged archive lets the standard library raise becomes ImageError."""
    try:
        yield
    except (ImageError, HostError, MemoryError):
        raise
    except _DAMAGE as error:
        raise ImageError(f"{what} is damaged: {str(error) or type(error).__name__}") from None
    except OSError as error:
        if error.errno is None:  # bz2's word for damage
            raise ImageError(f"{what} is damaged: {error}") from None
        raise ImageError(f"{what} cannot be read: {reason(error)}") from None
    except Exception as error:
        if type(error).__module__ in ("zlib", "_lzma"):
            raise ImageError(f"{what} is damaged: {error}") from None
        raise


def open_file(path: str) -> BinaryIO:
    """A regular file; nothing else is waited for.  Raises HostError, ImageError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise HostError(f"open {path}", error) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ImageError(f"{path} is no regular file")
    return os.fdopen(fd, "rb")


def compression_of(start: bytes) -> str:
    """``gzip``, ``zstd``, ``xz``, ``bzip2`` or "" by the first bytes of a file."""
    for magic, kind in ((_XZ, "xz"), (_BZIP2, "bzip2"), (_GZIP, "gzip"), (_ZSTD, "zstd")):
        if start.startswith(magic):
            return kind
    return ""


def compression_of_file(file: BinaryIO, what: str) -> str:
    """The same for a file that is open; the place in it is kept.  Raises ImageError."""
    with faults_of(what):
        start = file.read(_MAGIC)
        file.seek(-len(start), os.SEEK_CUR)
    return compression_of(start)


def plain(file: BinaryIO, what: str) -> Reading:
    """The bytes of an archive without its compression.  Raises ImageError."""
    kind = compression_of_file(file, what)
    if kind == "xz":
        import lzma

        return Reading(lzma.LZMAFile(file), what)
    if kind == "bzip2":
        import bz2

        return Reading(bz2.BZ2File(file), what)
    return Reading(decompressed(file), what)


class _Member(tarfile.TarInfo):
    """A member whose headers are no larger than a layer's may be; they are read into memory.

    Nor is its size negative, by whichever header: what is read next would lie before it.
    """

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _EXTENSIONS and not 0 <= self.size <= LARGEST_EXTENSION:
            raise tarfile.ReadError(f"it has an extended header of {self.size} bytes")
        _check_size(self)
        found: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        _check_size(found)
        return found


def _check_size(member: tarfile.TarInfo) -> None:
    if member.size < 0:
        raise tarfile.ReadError(f"it has a member of {member.size} bytes")


def members(stream: Reading) -> Iterator[tuple[tarfile.TarInfo, Callable[[], Reading]]]:
    """Each member of a tar in its order, and what opens its content before the next is asked for.

    The stream is read to its end.  Raises ImageError.
    """
    with faults_of(stream.what):
        archive = tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member)  # type: ignore[call-overload]
        count = 0
        while member := archive.next():
            count += 1
            if count > _MOST_MEMBERS:
                raise ImageError(f"{stream.what} has more than {_MOST_MEMBERS} members")
            archive.members.clear()
            yield member, _opener(archive, member, stream.what)
    while stream.read(CHUNK):
        pass


def _opener(archive: tarfile.TarFile, member: tarfile.TarInfo, what: str) -> Callable[[], Reading]:
    def open_member() -> Reading:
        content: Any = archive.extractfile(member)
        return Reading(content, what)

    return open_member


def member_name(name: str) -> str:
    """``./a/b/`` as ``a/b``; "" is the archive's top."""
    return "/".join(part for part in name.split("/") if part not in ("", "."))


class DirectoryFiles:
    """The files below a directory, by relative name."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __str__(self) -> str:
        return self.path

    def has(self, name: str) -> bool:
        return os.path.isfile(f"{self.path}/{name}")

    def open(self, name: str) -> tuple[Reading, int]:
        """(stream, size in bytes).  Raises HostError, ImageError."""
        if not self.has(name):
            raise ImageError(f"{self.path}: {name} is missing")
        file = open_file(f"{self.path}/{name}")
        return Reading(file, f"{self.path}/{name}"), os.fstat(file.fileno()).st_size

    def close(self) -> None:
        """Nothing is open for longer than its stream."""


class ArchiveFiles:
    """The files in a tar, by name; a compressed one is unpacked into a file in ``tmp`` first.

    Raises HostError, ImageError.
    """

    def __init__(self, path: str, tmp: str) -> None:
        self.path = path
        file = open_file(path)
        try:
            if compression_of_file(file, path):
                file = _spooled(file, path, tmp)
            self._file = file
            with faults_of(path):
                self._archive = tarfile.open(fileobj=file, mode="r:", tarinfo=_Member)
                self._members = {member_name(one.name): one for one in self._archive}
        except BaseException:
            file.close()
            raise

    def __str__(self) -> str:
        return self.path

    def has(self, name: str) -> bool:
        return member_name(name) in self._members

    def open(self, name: str) -> tuple[Reading, int]:
        """(stream, size in bytes); links are followed inside the archive."""
        found = member_name(name)
        for _ in range(_MOST_LINKS):
            member = self._members.get(found)
            if member is None or not (member.issym() or member.islnk()):
                break
            beside = os.path.dirname(found) if member.issym() else ""
            found = member_name(os.path.normpath(os.path.join(beside, member.linkname)))
        if member is None or not member.isreg():
            raise ImageError(f"{self.path}: {name} is missing")
        with faults_of(self.path):
            content: Any = self._archive.extractfile(member)
        return Reading(content, f"{self.path}: {name}"), member.size

    def close(self) -> None:
        self._archive.close()
        self._file.close()


Files = DirectoryFiles | ArchiveFiles


def read_small(files: Files, name: str, longest: int) -> bytes:
    """A whole file of them.  Raises HostError, ImageError."""
    stream, size = files.open(name)
    with closing(stream):
        if size > longest:
            raise ImageError(f"{files}: {name} is longer than {longest} bytes")
        data = b""
        while more := stream.read(longest + 1 - len(data)):
            data += more
        return data


def _spooled(file: BinaryIO, path: str, tmp: str) -> BinaryIO:
    with file:
        stream = plain(file, path)
        target = None
        try:
            target = tempfile.TemporaryFile(dir=tmp)
            while chunk := stream.read(CHUNK):
                target.write(chunk)
            target.seek(0)
        except BaseException as error:
            if target:
                target.close()
            if isinstance(error, OSError):
                raise HostError(f"unpack {path} in {tmp}", error) from None
            raise
    return target
