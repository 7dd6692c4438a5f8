"""Create the tar archive of an image layer as a stream, without a copy in memory or on disk.

``Incoming.add_blob(LayerTar(of_directory(PATH)))`` imports a directory as a layer.  The archive is
reproducible: names are sorted, owners are numeric, and the only times are the files' mtimes.

In the upper directory of an overlay, character devices 0:0 and the attribute
``trusted.overlay.opaque`` mark removed files.  In a layer, files with the prefix ``.wh.`` mark them
(image-spec, layer.md).
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import tarfile
from collections.abc import Collection, Iterator

from ociruntime.base.deep_tree import TreeEntry, open_regular, walk
from ociruntime.base.errors import HostError, ImageError
from ociruntime.images.model.image_limits import Budget
from ociruntime.images.tar.decompression import CHUNK, Readable
from ociruntime.images.tar.file_attributes import ACL, CAPABILITY, is_text, refusal
from ociruntime.images.tar.tar_header import LONGEST_NAME

_END = b"\0" * (2 * tarfile.BLOCKSIZE)
WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
# struct vfs_ns_cap_data: magic and flags, four words of capability sets, uid of the root user.
_OF_NAMESPACE, _OF_ROOT = struct.Struct("<6I"), 0x02000000
# POSIX ACLs: a version of 4 bytes, then entries (tag, permissions, id); only _NAMED tags use the
# id.
_ENTRY, _NAMED = struct.Struct("<HHI"), (0x02, 0x08)
_KINDS = {
    stat.S_IFREG: tarfile.REGTYPE,
    stat.S_IFDIR: tarfile.DIRTYPE,
    stat.S_IFLNK: tarfile.SYMTYPE,
    stat.S_IFCHR: tarfile.CHRTYPE,
    stat.S_IFBLK: tarfile.BLKTYPE,
    stat.S_IFIFO: tarfile.FIFOTYPE,
}

# (header, stream of the content or None).  Only regular files have content.  The iterator that
# yields the member closes the stream.
Member = tuple[tarfile.TarInfo, Readable | None]


class LayerTar:
    """A stream of a tar archive with ``members``; ``count`` is the number of bytes read so far."""

    def __init__(self, members: Iterator[Member]) -> None:
        self._pieces = _pieces(members)
        self._rest = memoryview(b"")
        self.count = 0

    def read(self, size: int = CHUNK, /) -> bytes:
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
        yield header.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
        if content is None:
            continue
        remaining = header.size
        while remaining:
            data = content.read(min(remaining, CHUNK))
            if not data:
                raise ImageError(f'read "{header.name}": the file was truncated during the read')
            remaining -= len(data)
            yield data
        yield b"\0" * (-header.size % tarfile.BLOCKSIZE)
    yield _END


def check_name(path: str) -> None:
    """Raise ImageError if ``path`` is too long for a layer, or if its name begins with ``.wh.``."""
    if os.path.basename(path).startswith(WHITEOUT):
        hint = f"in a layer, the prefix {WHITEOUT} marks a removed file: rename the file"
        raise ImageError(f'add "{path}" to a layer: reserved name', hint)
    if len(os.fsencode(path)) > LONGEST_NAME:
        message = f"the path is longer than {LONGEST_NAME} bytes"
        raise ImageError(f'add "{path[:60]}..." to a layer: {message}')


def of_directory(
    top: str,
    budget: Budget,
    *,
    shift: int = 0,
    upper: bool = False,
    skipped: Collection[str] = (),
    mounts: bool = True,
) -> Iterator[Member]:
    """Yield the layer members for the directory ``top`` and all files below, except sockets.

    Does not follow symbolic links.  ``budget`` counts the bytes of files; holes count too, because
    they are written as zeros.  ``shift``, the first host id of the pod's user namespace, is
    subtracted from owner ids.  With ``upper``, ``top`` is the upper directory of an overlay, and
    its removed files become whiteouts.  ``skipped`` lists relative paths to omit.  Without
    ``mounts``, the mount points of other filesystems become empty directories.  Extended attributes
    that images may not set are omitted.

    Raises HostError if a file cannot be read, ImageError if a limit is exceeded or a file cannot be
    stored in a layer.
    """
    tree = _Tree(budget, shift, upper)
    path = "."
    try:
        status = os.stat(top)
        yield from tree.members(top, path, status)
        filesystem = None if mounts else status.st_dev
        for entry in walk(top, budget.take_file, filesystem=filesystem):
            if entry.leaving or entry.inside in skipped:
                continue
            path = entry.inside
            yield from tree.entry(entry)
    except OSError as error:
        raise HostError(f'read "{path if path != "." else top}"', error) from None


def of_file(
    path: str, name: str, status: os.stat_result, budget: Budget, shift: int
) -> Iterator[Member]:
    """Yield the layer member ``name`` for the file at ``path``, which is not a directory.

    ``shift`` is subtracted from owner ids.  Raises OSError if the file cannot be read or if
    ``status`` no longer describes it, ImageError if a limit is exceeded.
    """
    yield from _Tree(budget, shift, upper=False).members(path, name, status)


class _Tree:
    """A directory tree that becomes a layer; the methods yield the layer's members.

    The methods raise OSError if a file cannot be read, ImageError if a file cannot be stored in a
    layer.
    """

    def __init__(self, budget: Budget, shift: int, upper: bool) -> None:
        self._budget = budget
        self._shift = shift
        self._upper = upper
        # (device, inode) of files with several links -> path
        self._links: dict[tuple[int, int], str] = {}

    def entry(self, found: TreeEntry) -> Iterator[Member]:
        path, status = found.inside, found.status
        if self._upper and stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
            yield _empty("/".join([*found.cursor.names, f"{WHITEOUT}{found.name}"])), None
        elif not stat.S_ISSOCK(status.st_mode):
            check_name(path)
            if stat.S_ISDIR(status.st_mode):
                self._budget.check_depth(len(found.cursor.names) + 1)
            yield from self.members(found.path, path, status)

    def members(self, path: str, name: str, status: os.stat_result) -> Iterator[Member]:
        """Yield the layer member ``name`` for the file at ``path``."""
        header = self._header(path, name, status)
        if header.isreg():
            with open(open_regular(path, status), "rb", buffering=0) as file:
                header.size = os.fstat(file.fileno()).st_size  # the file may have grown meanwhile
                self._budget.take_bytes(header.size)
                yield header, file
            return
        yield header, None
        if self._upper and header.isdir() and _is_opaque(path):
            yield _empty(OPAQUE if name == "." else f"{name}/{OPAQUE}"), None

    def _header(self, path: str, name: str, status: os.stat_result) -> tarfile.TarInfo:
        header = tarfile.TarInfo(name)
        header.type = _KINDS[stat.S_IFMT(status.st_mode)]
        header.mode = stat.S_IMODE(status.st_mode)
        header.uid, header.gid = self._inside(status.st_uid), self._inside(status.st_gid)
        header.mtime = int(status.st_mtime)
        key = (status.st_dev, status.st_ino)
        if status.st_nlink > 1 and not header.isdir():
            if key in self._links:
                header.type, header.linkname = tarfile.LNKTYPE, self._links[key]
                return header
            self._budget.take_name(len(name))
            self._links[key] = name
        if header.issym():
            header.linkname = os.readlink(path)
        elif header.isdev():
            header.devmajor, header.devminor = os.major(status.st_rdev), os.minor(status.st_rdev)
        header.pax_headers = {
            f"SCHILY.xattr.{name}": self._attribute(path, name).decode("utf-8", "surrogateescape")
            for name in _attributes(path)
            if not refusal(name) and is_text(name)
        }
        return header

    def _inside(self, number: int) -> int:
        """Map a host uid or gid to the pod's user namespace; ids below its range become 0."""
        return number - self._shift if number >= self._shift else 0

    def _attribute(self, path: str, name: str) -> bytes:
        """Return the value of an extended attribute, with ids mapped to the pod's user namespace.

        Only capabilities and ACLs contain ids.
        """
        value = os.getxattr(path, name, follow_symlinks=False)
        if name == CAPABILITY and len(value) == _OF_NAMESPACE.size:
            magic, *sets, root = _OF_NAMESPACE.unpack(value)
            if root == self._shift:
                return struct.pack("<5I", magic & 0xFFFFFF | _OF_ROOT, *sets)
        if name in ACL:
            entries = [
                (tag, rights, self._inside(number) if tag in _NAMED else number)
                for tag, rights, number in _ENTRY.iter_unpack(value[4:])
            ]
            return value[:4] + b"".join(_ENTRY.pack(*entry) for entry in entries)
        return value


def _attributes(path: str) -> list[str]:
    try:
        return os.listxattr(path, follow_symlinks=False)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:  # pseudo filesystems, such as proc
            return []
        raise


def _is_opaque(path: str) -> bool:
    try:
        return os.getxattr(path, "trusted.overlay.opaque", follow_symlinks=False) == b"y"
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.EOPNOTSUPP):
            return False
        raise


def _empty(name: str) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.mode = 0o600
    return header
