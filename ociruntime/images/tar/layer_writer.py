"""Create a layer's tar archive as a stream, without a copy in memory or on disk.

``Incoming.add_blob(LayerTar(of_directory(PATH)))`` makes a layer of a directory.  The archive is
reproducible: names are sorted, owners are numeric, and the only times are the files' mtimes.
"""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterator

from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.model.limits import Budget
from ociruntime.images.tar.attributes import is_text
from ociruntime.images.tar.streams import CHUNK, Readable

_END = b"\0" * (2 * tarfile.BLOCKSIZE)
WHITEOUT = ".wh."

# A header and, for a regular file, a stream of its content, which the iterator itself closes.
Member = tuple[tarfile.TarInfo, Readable | None]


class LayerTar:
    """A stream of a tar archive of ``members``; ``count`` is the number of bytes read so far."""

    def __init__(self, members: Iterator[Member]) -> None:
        self._pieces = _pieces(members)
        self._rest = memoryview(b"")
        self.count = 0

    def read(self, size: int, /) -> bytes:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._rest = memoryview(piece)
        data = bytes(self._rest[:size])
        self._rest = self._rest[size:]
        self.count += len(data)
        return data


def _pieces(members: Iterator[Member]) -> Iterator[bytes]:
    for header, content in members:
        if os.path.basename(header.name).startswith(WHITEOUT):
            hint = f"in a layer, the prefix {WHITEOUT} marks a removed file"
            raise ImageError(f'add "{header.name}" to a layer: reserved name', hint)
        yield header.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
        if content is None:
            continue
        left = header.size
        while left:
            data = content.read(min(left, CHUNK))
            if not data:
                raise ImageError(f'read "{header.name}": the file was truncated meanwhile')
            left -= len(data)
            yield data
        yield b"\0" * (-header.size % tarfile.BLOCKSIZE)
    yield _END


def of_directory(top: str, budget: Budget) -> Iterator[Member]:
    """Yield the directory ``top`` and everything below, depth first, except sockets.

    Symbolic links are not followed.  Raises HostError; ImageError if the number of files or the
    depth exceeds ``budget``.
    """
    seen: dict[tuple[int, int], str] = {}  # (device, inode) of files with several links -> path
    try:
        top_fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(f'open "{top}"', error) from None
    try:
        yield _header(os.fstat(top_fd), ".", _attributes(top_fd)), None
        yield from _below(top_fd, "", seen, 0, budget)
    finally:
        os.close(top_fd)


def _below(
    directory: int, prefix: str, seen: dict[tuple[int, int], str], depth: int, budget: Budget
) -> Iterator[Member]:
    for name in _names(directory, budget):
        path = f"{prefix}{name}"
        try:
            facts = os.lstat(name, dir_fd=directory)
            kind = stat.S_IFMT(facts.st_mode)
            if kind == stat.S_IFSOCK:
                continue
            key = (facts.st_dev, facts.st_ino)
            if kind != stat.S_IFDIR and facts.st_nlink > 1:
                if key in seen:
                    yield _link(facts, path, seen[key]), None
                    continue
                budget.take_name(len(path))
                seen[key] = path
            if kind == stat.S_IFLNK:
                target = os.readlink(name, dir_fd=directory)
                yield _header(facts, path, {}, target), None
            elif kind in (stat.S_IFDIR, stat.S_IFREG):
                yield from _opened(directory, name, path, seen, depth, budget)
            else:
                yield _header(facts, path, {}), None
        except OSError as error:
            raise HostError(f'read "{path}"', error) from None


def _names(directory: int, budget: Budget) -> list[str]:
    with os.scandir(directory) as entries:
        names = []
        for entry in entries:
            budget.take_file()
            names.append(entry.name)
    return sorted(names, key=os.fsencode)


def _opened(
    directory: int,
    name: str,
    path: str,
    seen: dict[tuple[int, int], str],
    depth: int,
    budget: Budget,
) -> Iterator[Member]:
    """Yield a directory and everything below it, or a regular file, opened by ``name``."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    fd = os.open(name, flags, dir_fd=directory)
    try:
        facts = os.fstat(fd)  # of the opened file: it may have been replaced since it was listed
        header = _header(facts, path, _attributes(fd))
        if stat.S_ISDIR(facts.st_mode):
            budget.check_depth(depth + 1)
            yield header, None
            yield from _below(fd, f"{path}/", seen, depth + 1, budget)
        elif stat.S_ISREG(facts.st_mode):
            with os.fdopen(os.dup(fd), "rb", buffering=0) as file:
                yield header, file
    finally:
        os.close(fd)


def _header(
    facts: os.stat_result, path: str, attributes: dict[str, str], target: str = ""
) -> tarfile.TarInfo:
    header = tarfile.TarInfo(path)
    header.mode = stat.S_IMODE(facts.st_mode)
    header.uid, header.gid, header.mtime = facts.st_uid, facts.st_gid, int(facts.st_mtime)
    header.pax_headers = attributes
    header.linkname = target
    kind = stat.S_IFMT(facts.st_mode)
    header.type = {
        stat.S_IFDIR: tarfile.DIRTYPE,
        stat.S_IFLNK: tarfile.SYMTYPE,
        stat.S_IFCHR: tarfile.CHRTYPE,
        stat.S_IFBLK: tarfile.BLKTYPE,
        stat.S_IFIFO: tarfile.FIFOTYPE,
    }.get(kind, tarfile.REGTYPE)
    if kind == stat.S_IFREG:
        header.size = facts.st_size
    elif kind in (stat.S_IFCHR, stat.S_IFBLK):
        header.devmajor, header.devminor = os.major(facts.st_rdev), os.minor(facts.st_rdev)
    return header


def _link(facts: os.stat_result, path: str, target: str) -> tarfile.TarInfo:
    """Return the header of a hard link to the member ``target``."""
    header = _header(facts, path, {}, target)
    header.type, header.size = tarfile.LNKTYPE, 0
    return header


def _attributes(fd: int) -> dict[str, str]:
    """Return pax records of a file's extended attributes, without those of the host's policy."""
    records = {}
    for name in os.listxattr(fd):
        if name.startswith(("user.", "security.capability", "trusted.")) and is_text(name):
            value = os.getxattr(fd, name)
            records[f"SCHILY.xattr.{name}"] = value.decode("utf-8", "surrogateescape")
    return records
