"""Unpack an image's layers on top of each other into a directory.

The content of a layer is untrusted.  Each file is created relative to a descriptor of its parent
directory (tree_paths.py), and never through a link.  An existing file at its path is removed first,
unless the existing and the new file are directories.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Sequence

from ociruntime.base.errors import HostError, ImageError, reason
from ociruntime.base.files import write_all
from ociruntime.images.model.blobs import Blobs
from ociruntime.images.model.digest import hasher
from ociruntime.images.model.image import Layer, Progress, silent
from ociruntime.images.model.image_limits import Budget, Limits
from ociruntime.images.tar.decompression import CHUNK, Counted, Readable, decompressed
from ociruntime.images.tar.file_attributes import (
    AttributeWarnings,
    set_by_name,
    set_of_open,
    set_time,
)
from ociruntime.images.tar.tar_header import (
    BLOCK_DEVICE,
    CHARACTER_DEVICE,
    DIRECTORY,
    FIFO,
    HARD_LINK,
    REGULAR,
    SYMLINK,
    Header,
)
from ociruntime.images.tar.tar_reader import TarReader
from ociruntime.images.unpack.tree_paths import Inside, Made, split_name


class Checked:
    """A stream of the decompressed bytes of a layer; ``finish`` verifies their digest.

    ``stored`` is the stream of the layer's blob, ``kind`` the label for ``progress``.
    """

    def __init__(
        self, stored: Counted, layer: Layer, budget: Budget, progress: Progress, kind: str
    ) -> None:
        self.stored = stored
        self.layer = layer
        self.progress = progress
        self.kind = kind
        self.plain = decompressed(stored, budget, "stored blob")
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
        """Refill the buffer, which makes reading many small headers fast."""
        self.buffer, self.at = self.plain.read(CHUNK), 0
        self.hash.update(self.buffer)
        self.progress(self.kind, self.stored.count, self.layer.size)

    def finish(self) -> None:
        """Read the rest of the layer; raise ImageError if the digest is not its diff_id."""
        while self.read(CHUNK):
            pass
        algorithm, _, digits = self.layer.diff_id.partition(":")
        actual = self.hash.hexdigest()
        if actual != digits:
            message = f"expected diff_id {self.layer.diff_id}, got {algorithm}:{actual}"
            raise ImageError(f"digest mismatch of the uncompressed layer: {message}")


def unpack_layer(
    stream: Readable, layer: Layer, root: int, budget: Budget, warnings: AttributeWarnings
) -> None:
    """Unpack a layer from the stream of its blob into the directory ``root`` (a descriptor).

    Raises ImageError if the layer is invalid or exceeds a limit, HostError if a file cannot be
    written.  After an error, ``root`` is incomplete.
    """
    _unpack(stream, layer, root, budget, warnings, silent, "unpacking")


def unpack(
    blobs: Blobs,
    layers: Sequence[Layer],
    root: int,
    limits: Limits | None = None,
    progress: Progress = silent,
) -> list[str]:
    """Unpack all layers into the empty directory ``root`` (a descriptor); return warnings.

    Must run as root, to set owners and create devices.  Raises ImageError if a layer is invalid or
    exceeds a limit, HostError if a file cannot be written; the caller must then empty ``root``.
    """
    warnings = AttributeWarnings()
    budget = Budget.at(root, limits or Limits())
    for number, layer in enumerate(layers, 1):
        kind = f"unpacking layer {number} of {len(layers)}"
        with blobs.open(layer.digest) as stream:
            _unpack(stream, layer, root, budget, warnings, progress, kind)
    return warnings.lines()


def _unpack(
    stream: Readable,
    layer: Layer,
    root: int,
    budget: Budget,
    warnings: AttributeWarnings,
    progress: Progress,
    kind: str,
) -> None:
    try:
        checked = Checked(Counted(stream), layer, budget, progress, kind)
        LayerUnpacker(TarReader(checked), root, budget, warnings).apply()
        checked.finish()
    except ImageError as error:
        raise ImageError(f"unpack layer {layer.digest}: {error.message}", error.hint) from None


WHITEOUT = b".wh."
OPAQUE = b".wh..wh..opq"
_RESERVED = b".wh..wh."  # prefix of internal files of aufs, which have no meaning in an image
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20
_DIRECTORY_SIZE = 4096  # bytes of an empty directory
# Errors caused by the image: names, link targets or extended attributes are too long or invalid.
_FAULTS_OF_IMAGE = (errno.ENAMETOOLONG, errno.EINVAL, errno.ERANGE, errno.E2BIG)


class LayerUnpacker:
    """Unpack the layer that ``reader`` reads into the directory ``root`` (a descriptor).

    ``made`` contains the paths that this layer has created, and their parents.  A whiteout removes
    only files of lower layers, even if it follows files of its own layer.
    """

    def __init__(
        self, reader: TarReader, root: int, budget: Budget, warnings: AttributeWarnings
    ) -> None:
        self.reader = reader
        self.root = root
        self.budget = budget
        self.warnings = warnings
        self.inside = Inside(root, budget)
        self.made = Made(budget)
        self.hidden: set[bytes] = set()  # directories whose lower content has been removed
        self.directory_times: dict[bytes, int] = {}  # path -> mtime in nanoseconds

    def apply(self) -> None:
        """Unpack all files of the layer.

        Raises ImageError if the layer is invalid, HostError if a file cannot be written.
        """
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
            raise ImageError(
                f'"{header.shown()}" is below a whiteout, a name that begins with .wh.'
            )
        if name.startswith(WHITEOUT):
            self._whiteout(parents, name)
            return
        fd, parent = self.inside.directory(parents, self.made)
        path = _join(parent, name)
        self._create(header, fd, name, path)
        self.made.add(path)

    def _set_root(self, header: Header) -> None:
        if header.type != DIRECTORY:
            raise ImageError(f'the root "{header.shown()}" is not a directory')
        set_of_open(self.root, header, self.warnings)
        self.directory_times[b""] = header.mtime

    # Create files

    def _create(self, header: Header, fd: int, name: bytes, path: bytes) -> None:
        """Create the file that ``header`` describes, as ``name`` in the directory ``fd``.

        ``path`` is its path in the tree.
        """
        if header.type == HARD_LINK:
            self._hard_link(header, fd, name, path)
            return
        if header.type == DIRECTORY:
            self._directory(header, fd, name, path)
            return
        make = _KINDS.get(header.type)
        if make is None:
            kind = header.type.decode("latin-1")
            raise ImageError(f'"{header.shown()}": unsupported tar member type {kind!r}')
        self._clear(fd, name)
        make(self, header, fd, name)

    def _clear(self, fd: int, name: bytes) -> None:
        """Remove the file or directory ``name`` in the directory ``fd`` if it exists."""
        try:
            mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return
        _remove(fd, name, mode)

    def _directory(self, header: Header, fd: int, name: bytes, path: bytes) -> None:
        """Create a directory; an existing directory keeps its files but gets new attributes."""
        self.budget.check_depth(path.count(b"/") + 1)
        try:
            mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
            if not stat.S_ISDIR(mode):
                os.unlink(name, dir_fd=fd)
                os.mkdir(name, 0o700, dir_fd=fd)
        except FileNotFoundError:
            os.mkdir(name, 0o700, dir_fd=fd)
        made = os.open(name, _DIRECTORY, dir_fd=fd)
        try:
            set_of_open(made, header, self.warnings)
        finally:
            os.close(made)
        # The mtime is set at the end, because creating files in the directory changes it.
        if path not in self.directory_times:
            self.budget.take_name(len(path))
        self.directory_times[path] = header.mtime

    def _regular(self, header: Header, fd: int, name: bytes) -> None:
        self.budget.take_bytes(header.size)
        file = os.open(name, _NEW_FILE, 0o600, dir_fd=fd)
        try:
            self._write(header, file)
            set_of_open(file, header, self.warnings)
            os.utime(file, ns=(header.mtime, header.mtime))
        finally:
            os.close(file)

    def _write(self, header: Header, file: int) -> None:
        """Write the content of a regular file; gaps between a sparse file's pieces become holes."""
        if header.pieces is None:
            while chunk := self.reader.read(_CHUNK):
                write_all(file, chunk)
            return
        for offset, length in header.pieces:
            os.lseek(file, offset, os.SEEK_SET)
            remaining = length
            while remaining:
                chunk = self.reader.read(min(remaining, _CHUNK))
                write_all(file, chunk)
                remaining -= len(chunk)
        os.ftruncate(file, header.size)

    def _symlink(self, header: Header, fd: int, name: bytes) -> None:
        if not header.link:
            raise ImageError(f'symbolic link "{header.shown()}": empty target')
        os.symlink(header.link, name, dir_fd=fd)
        set_by_name(fd, name, header, self.warnings, link=True)

    def _device(self, header: Header, fd: int, name: bytes) -> None:
        kind = stat.S_IFCHR if header.type == CHARACTER_DEVICE else stat.S_IFBLK
        device = os.makedev(header.major, header.minor)
        os.mknod(name, kind | 0o600, device, dir_fd=fd)
        set_by_name(fd, name, header, self.warnings, link=False)

    def _fifo(self, header: Header, fd: int, name: bytes) -> None:
        os.mkfifo(name, 0o600, dir_fd=fd)
        set_by_name(fd, name, header, self.warnings, link=False)

    def _hard_link(self, header: Header, fd: int, name: bytes, path: bytes) -> None:
        """Create a hard link to a file of this layer or a lower layer.

        Raises ImageError if the target is missing or a directory.
        """
        *parents, target = split_name(header.link) or [b""]
        inside = Inside(self.root, self.budget)
        try:
            source, parent = inside.directory(parents)
            if _join(parent, target) == path:
                return
            mode = os.stat(target, dir_fd=source, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                raise ImageError(f'hard link "{header.shown()}": its target is a directory')
            self._clear(fd, name)
            os.link(target, name, src_dir_fd=source, dst_dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            link = header.link.decode("utf-8", "backslashreplace")
            message = f'its target "{link}" does not exist'
            raise ImageError(f'hard link "{header.shown()}": {message}') from None
        finally:
            inside.close()

    # Apply whiteouts

    def _whiteout(self, parents: list[bytes], name: bytes) -> None:
        try:
            fd, parent = self.inside.directory(parents)
        except FileNotFoundError:
            return
        if name == OPAQUE:
            self._hide_below(fd, parent)
            return
        hidden = name[len(WHITEOUT) :]
        if hidden in (b"", b".", b".."):
            shown = name.decode("utf-8", "backslashreplace")
            raise ImageError(f'invalid whiteout "{shown}"')
        self._hide(fd, parent, hidden)

    def _hide(self, fd: int, parent: bytes, name: bytes) -> None:
        """Remove ``name`` from the directory ``fd``, but keep files that this layer has created."""
        path = _join(parent, name)
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

    def _hide_below(self, fd: int, path: bytes) -> None:
        """Remove the files of lower layers in the directory ``path``, which is open as ``fd``.

        The first call for a directory removes them; later calls do nothing.
        """
        if path in self.hidden:
            return
        self.budget.take_name(len(path))
        self.hidden.add(path)
        for name in os.listdir(b"/proc/self/fd/%d" % fd):
            self._hide(fd, path, name)

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
                continue  # the layer has removed or replaced the directory later
            except OSError as error:
                shown = path.decode("utf-8", "backslashreplace")
                raise HostError(f'unpack: set the time of directory "{shown}"', error) from None


def _beside_content(header: Header) -> int:
    """Return an estimate of the bytes that a file occupies on disk in addition to its content."""
    attributes = sum(len(name) + len(value) for name, value in header.xattrs.items())
    return attributes + (_DIRECTORY_SIZE if header.type == DIRECTORY else 0)


def _join(parent: bytes, name: bytes) -> bytes:
    return parent + b"/" + name if parent else name


def _remove(directory: int, name: bytes, mode: int) -> None:
    if stat.S_ISDIR(mode):
        shutil.rmtree(name, dir_fd=directory)
    else:
        os.unlink(name, dir_fd=directory)


def _refuse(header: Header, error: OSError) -> None:
    """Raise an ImageError if the image's content caused ``error``, otherwise a HostError."""
    if error.errno in _FAULTS_OF_IMAGE:
        raise ImageError(f'unpack "{header.shown()}": {reason(error)}') from None
    raise HostError(f'unpack "{header.shown()}"', error) from None


_KINDS = {
    REGULAR: LayerUnpacker._regular,
    SYMLINK: LayerUnpacker._symlink,
    CHARACTER_DEVICE: LayerUnpacker._device,
    BLOCK_DEVICE: LayerUnpacker._device,
    FIFO: LayerUnpacker._fifo,
}
