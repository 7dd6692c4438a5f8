"""One layer of an image, applied to a directory.

What a layer holds comes from anywhere: nothing of it is trusted.  Every file is made by a call
relative to the descriptor of its parent directory (inside.py), never through a link, and only
where nothing is: what was there is removed first, directories for a directory excepted.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat

from ociruntime.base.errors import HostError, ImageError, reason
from ociruntime.images.model.limits import Budget
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
from ociruntime.images.unpack.inside import Inside, Made, split_name

WHITEOUT = b".wh."
OPAQUE = b".wh..wh..opq"
_RESERVED = b".wh..wh."  # what aufs kept for itself; of no meaning in an image
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20
_DIRECTORY_SIZE = 4096  # bytes, of an empty one
# Names, targets of links and extended attributes that are longer than any, or no such thing.
_FAULTS_OF_IMAGE = (errno.ENAMETOOLONG, errno.EINVAL, errno.ERANGE, errno.E2BIG)


class LayerUnpacker:
    """Applies the files of ``reader`` to the directory ``root``, a descriptor.

    ``made`` has the paths of what this layer has made, and of the directories it is in: whiteouts
    are meant for the layers below, wherever they stand among the layer's own files.
    """

    def __init__(self, reader: TarReader, root: int, budget: Budget, notes: Notes) -> None:
        self.reader = reader
        self.root = root
        self.budget = budget
        self.notes = notes
        self.inside = Inside(root, budget)
        self.made = Made(budget)
        self.hidden: set[bytes] = set()  # directories that hold nothing of a lower layer any more
        self.directory_times: dict[bytes, int] = {}

    def apply(self) -> None:
        """Raises ImageError, or HostError if the file system refuses."""
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
            raise ImageError("the layer has something else where its root directory should be")
        set_of_open(self.root, header, self.notes)
        self.directory_times[b""] = header.mtime

    # Making

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
            raise ImageError(f'"{header.shown()}" is of an unknown type: {kind!r}')
        self._clear(fd, name)
        make(self, header, fd, name)

    def _clear(self, fd: int, name: bytes) -> None:
        """Removes whatever is there."""
        try:
            mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return
        _remove(fd, name, mode)

    def _directory(self, header: Header, fd: int, name: bytes, path: bytes) -> None:
        """One that is there keeps what is in it, and becomes like the new one otherwise."""
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
        # Whatever is made in it later changes its time: that is set when the layer is done.
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
        """The content; what no piece of a sparse file covers stays a hole."""
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
            raise ImageError(f'the symbolic link "{header.shown()}" points nowhere')
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
        """To a file that is there already, in this layer or one below; never to a directory."""
        *parents, target = split_name(header.link) or [b""]
        inside = Inside(self.root, self.budget)
        try:
            source, place = inside.directory(parents)
            if _join(place, target) == path:
                return
            mode = os.stat(target, dir_fd=source, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                raise ImageError(f'the hard link "{header.shown()}" leads to a directory')
            self._clear(fd, name)
            os.link(target, name, src_dir_fd=source, dst_dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            link = header.link.decode("utf-8", "backslashreplace")
            message = f'the hard link "{header.shown()}" leads to "{link}", which is not there'
            raise ImageError(message) from None
        finally:
            inside.close()

    # Hiding

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
            raise ImageError(f'the layer has a whiteout "{shown}" of nothing')
        self._hide(fd, place, hidden)

    def _hide(self, fd: int, place: bytes, name: bytes) -> None:
        """Removes what a lower layer has made of ``name``."""
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
        """Remove what lower layers have put into a directory; once, then all is this layer's."""
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
                continue  # removed, or replaced, later in the layer
            except OSError as error:
                raise HostError("set the time of a directory of the image", error) from None


def _beside_content(header: Header) -> int:
    """Return the bytes that a file takes on the disk beside its content, about.

    A global header gives its attributes to every file that follows.
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
    """The image's fault, or the host's."""
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
