"""Unpack the layers of an image on top of each other into a directory."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Sequence

from ociruntime.base.errors import HostError, ImageError, reason
from ociruntime.images.model.blobs import Blobs
from ociruntime.images.model.digest import hasher
from ociruntime.images.model.image import Layer
from ociruntime.images.model.limits import Budget, Limits
from ociruntime.images.model.progress import Progress, silent
from ociruntime.images.tar.attributes import Notes, set_by_name, set_of_open, set_time
from ociruntime.images.tar.header import (
    BLOCK_DEVICE,
    CHARACTER_DEVICE,
    DIRECTORY,
    FIFO,
    HARD_LINK,
    REGULAR,
    SYMLINK,
    Header,
)
from ociruntime.images.tar.reader import TarReader
from ociruntime.images.tar.streams import CHUNK, Counted, Readable, decompressed
from ociruntime.images.unpack.inside import Inside, Made, split_name


class Checked:
    """The decompressed bytes of a layer, hashed as they are read and limited by ``budget``.

    ``stored`` counts the compressed bytes read, out of ``total``.
    """

    def __init__(
        self, stored: Counted, layer: Layer, budget: Budget, progress: Progress, kind: str
    ) -> None:
        self.stored = stored
        self.layer = layer
        self.progress = progress
        self.kind = kind
        self.plain = decompressed(stored, budget)
        self.hash = hasher(layer.diff_id)
        self.buffer = b""
        self.at = 0  # position in the buffer

    def read(self, size: int, /) -> bytes:
        if self.at == len(self.buffer):
            self._fill()
        data = self.buffer[self.at : self.at + size]
        self.at += len(data)
        return data

    def _fill(self) -> None:
        """Fill the buffer, which spares a call chain for each of many small headers."""
        self.buffer, self.at = self.plain.read(CHUNK), 0
        self.hash.update(self.buffer)
        self.progress(self.kind, self.stored.count, self.layer.size)

    def finish(self) -> None:
        """Read the rest of the stream and verify the digest.  Raises ImageError."""
        while self.read(CHUNK):
            pass
        algorithm, _, digits = self.layer.diff_id.partition(":")
        found = self.hash.hexdigest()
        if found != digits:
            expected = self.layer.diff_id
            raise ImageError(f"digest mismatch of a layer's content: {algorithm}:{found}", expected)


def unpack_layer(stream: Readable, layer: Layer, root: int, budget: Budget, notes: Notes) -> None:
    """Unpack a layer from its stored form into the directory ``root`` (a descriptor).

    Raises ImageError for faults of the layer, HostError for the host's; ``root`` is then
    incomplete.
    """
    _unpack(stream, layer, root, budget, notes, silent, "unpacking")


def unpack(
    blobs: Blobs,
    layers: Sequence[Layer],
    root: int,
    limits: Limits | None = None,
    progress: Progress = silent,
) -> list[str]:
    """Unpack all layers into the empty directory ``root`` (descriptor); return what was left out.

    Requires root, for owners and devices.  Raises ImageError, HostError; the caller then removes
    what has been created.
    """
    notes = Notes()
    budget = Budget.at(root, limits or Limits())
    for number, layer in enumerate(layers, 1):
        kind = f"unpacking layer {number} of {len(layers)}"
        with blobs.open(layer.digest) as stream:
            _unpack(stream, layer, root, budget, notes, progress, kind)
    return notes.lines()


def _unpack(
    stream: Readable,
    layer: Layer,
    root: int,
    budget: Budget,
    notes: Notes,
    progress: Progress,
    kind: str,
) -> None:
    checked = Checked(Counted(stream), layer, budget, progress, kind)
    LayerUnpacker(TarReader(checked), root, budget, notes).apply()
    checked.finish()


WHITEOUT = b".wh."
# Unpack a layer of an image into a directory.
#
# The content of a layer is untrusted.  Every file is created relative to the descriptor of its
# parent directory (inside.py), never through a link, and never over an existing file: that is
# removed first, except a directory that is to be a directory.

OPAQUE = b".wh..wh..opq"
_RESERVED = b".wh..wh."  # aufs' own files, meaningless in an image
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20
_DIRECTORY_SIZE = 4096  # bytes of an empty directory
# Errors for names, link targets and extended attributes that are too long or invalid.
_FAULTS_OF_IMAGE = (errno.ENAMETOOLONG, errno.EINVAL, errno.ERANGE, errno.E2BIG)


class LayerUnpacker:
    """An unpacker of ``reader``'s files into the directory ``root``, a descriptor.

    ``made`` has the paths that this layer has created, with parents: whiteouts apply to lower
    layers only, wherever they are in the archive.
    """

    def __init__(self, reader: TarReader, root: int, budget: Budget, notes: Notes) -> None:
        self.reader = reader
        self.root = root
        self.budget = budget
        self.notes = notes
        self.inside = Inside(root, budget)
        self.made = Made(budget)
        self.hidden: set[bytes] = set()  # directories without any content of lower layers
        self.directory_times: dict[bytes, int] = {}

    def apply(self) -> None:
        """Unpack all files.  Raises ImageError, or HostError for errors of the filesystem."""
        try:
            for header in self.reader:
                self.budget.take_file()
                self.budget.take_bytes(_beside_content(header))
                try:
                    self._apply(header)
                except OSError as error:
                    _refuse(header, error)
            self._set_directory_times()
        finally:
            self.inside.close()
            self.budget.forget_names()

    def _apply(self, header: Header) -> None:
        parts = split_name(header.name)
        if not parts:
            self._set_root(header)
            return
        *parents, name = parts
        if any(part.startswith(_RESERVED) for part in parts) and name != OPAQUE:
            return
        if any(part.startswith(WHITEOUT) for part in parents):
            raise ImageError(f'the layer has a file below the whiteout "{header.shown()}"')
        if name.startswith(WHITEOUT):
            self._whiteout(parents, name)
            return
        fd, place = self.inside.directory(parents, self.made)
        path = _join(place, name)
        self._place(header, fd, name, path)
        self.made.add(path)

    def _set_root(self, header: Header) -> None:
        if header.type != DIRECTORY:
            raise ImageError("the layer's root is not a directory")
        set_of_open(self.root, header, self.notes)
        self.directory_times[b""] = header.mtime

    # Create files

    def _place(self, header: Header, fd: int, name: bytes, path: bytes) -> None:
        if header.type == HARD_LINK:
            self._hard_link(header, fd, name, path)
            return
        if header.type == DIRECTORY:
            self._directory(header, fd, name, path)
            return
        make = _KINDS.get(header.type)
        if make is None:
            kind = header.type.decode("latin-1")
            raise ImageError(f'"{header.shown()}" has the unknown type {kind!r}')
        self._clear(fd, name)
        make(self, header, fd, name)

    def _clear(self, fd: int, name: bytes) -> None:
        """Remove whatever is there."""
        try:
            mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return
        _remove(fd, name, mode)

    def _directory(self, header: Header, fd: int, name: bytes, path: bytes) -> None:
        """Create a directory; an existing one keeps its content but gets the new attributes."""
        try:
            mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
            if not stat.S_ISDIR(mode):
                os.unlink(name, dir_fd=fd)
                os.mkdir(name, 0o700, dir_fd=fd)
        except FileNotFoundError:
            os.mkdir(name, 0o700, dir_fd=fd)
        made = os.open(name, _DIRECTORY, dir_fd=fd)
        try:
            set_of_open(made, header, self.notes)
        finally:
            os.close(made)
        # Creating files in it changes its mtime, so that is set at the end.
        if path not in self.directory_times:
            self.budget.take_name(len(path))
        self.directory_times[path] = header.mtime

    def _regular(self, header: Header, fd: int, name: bytes) -> None:
        self.budget.take_bytes(header.size)
        file = os.open(name, _NEW_FILE, 0o600, dir_fd=fd)
        try:
            self._write(header, file)
            set_of_open(file, header, self.notes)
            os.utime(file, ns=(header.mtime, header.mtime))
        finally:
            os.close(file)

    def _write(self, header: Header, file: int) -> None:
        """Write the content; parts outside the pieces of a sparse file stay holes."""
        if header.pieces is None:
            while chunk := self.reader.read(_CHUNK):
                _write_all(file, chunk)
            return
        for offset, length in header.pieces:
            os.lseek(file, offset, os.SEEK_SET)
            left = length
            while left:
                chunk = self.reader.read(min(left, _CHUNK))
                _write_all(file, chunk)
                left -= len(chunk)
        os.ftruncate(file, header.size)

    def _symlink(self, header: Header, fd: int, name: bytes) -> None:
        if not header.link:
            raise ImageError(f'the symbolic link "{header.shown()}" has no target')
        os.symlink(header.link, name, dir_fd=fd)
        set_by_name(fd, name, header, self.notes, link=True)

    def _device(self, header: Header, fd: int, name: bytes) -> None:
        kind = stat.S_IFCHR if header.type == CHARACTER_DEVICE else stat.S_IFBLK
        device = os.makedev(header.major, header.minor)
        os.mknod(name, kind | 0o600, device, dir_fd=fd)
        set_by_name(fd, name, header, self.notes, link=False)

    def _fifo(self, header: Header, fd: int, name: bytes) -> None:
        os.mkfifo(name, 0o600, dir_fd=fd)
        set_by_name(fd, name, header, self.notes, link=False)

    def _hard_link(self, header: Header, fd: int, name: bytes, path: bytes) -> None:
        """Link to an existing file of this or a lower layer, never to a directory."""
        *parents, target = split_name(header.link) or [b""]
        inside = Inside(self.root, self.budget)
        try:
            source, place = inside.directory(parents)
            if _join(place, target) == path:
                return
            mode = os.stat(target, dir_fd=source, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                raise ImageError(f'the hard link "{header.shown()}" refers to a directory')
            self._clear(fd, name)
            os.link(target, name, src_dir_fd=source, dst_dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            link = header.link.decode("utf-8", "backslashreplace")
            message = f'the hard link "{header.shown()}" refers to "{link}", which does not exist'
            raise ImageError(message) from None
        finally:
            inside.close()

    # Apply whiteouts

    def _whiteout(self, parents: list[bytes], name: bytes) -> None:
        try:
            fd, place = self.inside.directory(parents)
        except FileNotFoundError:
            return
        if name == OPAQUE:
            self._hide_below(fd, place)
            return
        hidden = name[len(WHITEOUT) :]
        if hidden in (b"", b".", b".."):
            shown = name.decode("utf-8", "backslashreplace")
            raise ImageError(f'the layer has an invalid whiteout "{shown}"')
        self._hide(fd, place, hidden)

    def _hide(self, fd: int, place: bytes, name: bytes) -> None:
        """Remove what lower layers have created at ``name``."""
        path = _join(place, name)
        try:
            mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return
        if path not in self.made:
            _remove(fd, name, mode)
        elif stat.S_ISDIR(mode):
            below = os.open(name, _DIRECTORY, dir_fd=fd)
            try:
                self._hide_below(below, path)
            finally:
                os.close(below)

    def _hide_below(self, fd: int, place: bytes) -> None:
        """Remove what lower layers have put into a directory; done once per directory."""
        if place in self.hidden:
            return
        self.budget.take_name(len(place))
        self.hidden.add(place)
        for name in os.listdir(b"/proc/self/fd/%d" % fd):
            self._hide(fd, place, name)

    def _set_directory_times(self) -> None:
        for path, mtime in self.directory_times.items():
            try:
                if not path:
                    os.utime(self.root, ns=(mtime, mtime))
                    continue
                parent, _, name = path.rpartition(b"/")
                fd, _ = self.inside.directory(parent.split(b"/"))
                set_time(fd, name, mtime)
            except (FileNotFoundError, ImageError):
                continue  # removed or replaced later in the layer
            except OSError as error:
                raise HostError("set the time of a directory of the image", error) from None


def _beside_content(header: Header) -> int:
    """Estimate the bytes that a file takes on disk besides its content.

    Attributes in a global header apply to every file that follows.
    """
    attributes = sum(len(name) + len(value) for name, value in header.xattrs.items())
    return attributes + (_DIRECTORY_SIZE if header.type == DIRECTORY else 0)


def _join(place: bytes, name: bytes) -> bytes:
    return place + b"/" + name if place else name


def _remove(directory: int, name: bytes, mode: int) -> None:
    if stat.S_ISDIR(mode):
        shutil.rmtree(name, dir_fd=directory)
    else:
        os.unlink(name, dir_fd=directory)


def _write_all(fd: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(fd, view) :]


def _refuse(header: Header, error: OSError) -> None:
    """Raise ImageError or HostError, depending on whose fault ``error`` is."""
    if error.errno in _FAULTS_OF_IMAGE:
        raise ImageError(f'cannot unpack "{header.shown()}": {reason(error)}') from None
    raise HostError(f'unpack "{header.shown()}"', error) from None


_KINDS = {
    REGULAR: LayerUnpacker._regular,
    SYMLINK: LayerUnpacker._symlink,
    CHARACTER_DEVICE: LayerUnpacker._device,
    BLOCK_DEVICE: LayerUnpacker._device,
    FIFO: LayerUnpacker._fifo,
}
