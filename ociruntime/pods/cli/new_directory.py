"""Directories and files that a command makes for its user: whole, or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from ociruntime.base.errors import HostError, UsageError
from ociruntime.pods.store.removal import remove_tree

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def check_target(target: str, data: str, *, overwrite: bool) -> str:
    """Return ``target`` as an absolute path, if a directory may be put there.

    A link of that name is not followed: in a volume it may be a container's, and lead anywhere.
    ``data`` is the directory of pods and images.  Raises UsageError.
    """
    absolute = os.path.abspath(target)
    if os.path.islink(absolute):
        raise UsageError(f'"{target}" is a symbolic link', "name the directory itself")
    path = os.path.realpath(absolute)
    for kept in (data, os.getcwd(), "/"):
        if os.path.commonpath([path, os.path.realpath(kept)]) == path:
            what = "is the root directory" if path == "/" else f'"{kept}" is in it, or is it'
            raise UsageError(f'"{target}" cannot be replaced: {what}')
    inside = os.path.realpath(data)
    if os.path.commonpath([path, inside]) == inside:
        raise UsageError(f'"{target}" is inside of "{data}", where pods and images are')
    if os.path.ismount(path):
        raise UsageError(f'"{target}" is a mount point')
    if os.path.lexists(path) and not _is_empty_directory(path):
        if not overwrite:
            raise UsageError(f'"{target}" exists', "--overwrite replaces it")
        if not os.path.isdir(path):
            raise UsageError(f'"{target}" is no directory')
    return path


def put_directory(path: str, fill: Callable[[int], None]) -> None:
    """Make a directory at ``path`` (checked), or replace the one that is there.

    ``fill`` is given the descriptor of a new directory beside it, which takes its place when all is
    done.  The programs of a container may write there too: everything is made relative to
    descriptors, and no link that they put in the way is followed.  Raises HostError, and whatever
    ``fill`` raises; then nothing has changed.
    """
    name = os.path.basename(path)
    temporary = _temporary(name)
    try:
        parent = _open_real(os.path.dirname(path))
        try:
            os.mkdir(temporary, 0o755, dir_fd=parent)
            try:
                new = os.open(temporary, _DIRECTORY, dir_fd=parent)
                try:
                    fill(new)
                    _check_same(parent, temporary, new)
                finally:
                    os.close(new)
                _put(parent, temporary, name)
            except BaseException:
                with suppress(OSError):
                    remove_tree(parent, temporary)
                raise
        finally:
            os.close(parent)
    except OSError as error:
        raise HostError(f'make the directory "{path}"', error) from None


def _put(parent: int, temporary: str, name: str) -> None:
    """Rename the new directory to ``name``, and remove what is there.  Raises OSError."""
    try:
        os.rmdir(name, dir_fd=parent)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        old = f"{temporary}.old"
        os.rename(name, old, src_dir_fd=parent, dst_dir_fd=parent)
        try:
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            os.rename(old, name, src_dir_fd=parent, dst_dir_fd=parent)
            raise
        remove_tree(parent, old)
        return
    os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)


@contextmanager
def new_file(target: str, *, overwrite: bool) -> Iterator[BinaryIO]:
    """A file that appears as ``target`` when the context ends well; ``-`` is standard output.

    Raises UsageError, HostError.
    """
    if target == "-":
        yield open(1, "wb", closefd=False)
        return
    path = os.path.abspath(target)
    if os.path.isdir(path):
        raise UsageError(f'"{target}" is a directory')
    if os.path.lexists(path) and not overwrite:
        raise UsageError(f'"{target}" exists', "--overwrite replaces it")
    name = os.path.basename(path)
    temporary = _temporary(name)
    try:
        parent = _open_real(os.path.realpath(os.path.dirname(path)))
        try:
            fd = os.open(temporary, _NEW_FILE, 0o644, dir_fd=parent)
            with open(fd, "wb") as file:
                try:
                    yield file
                    file.flush()
                    os.fsync(fd)
                    _check_same(parent, temporary, fd)
                    os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
                except BaseException:
                    with suppress(OSError):
                        os.unlink(temporary, dir_fd=parent)
                    raise
        finally:
            os.close(parent)
    except OSError as error:
        raise HostError(f'write "{target}"', error) from None


def _temporary(name: str) -> str:
    return f".{name[:200]}.{secrets.token_hex(6)}"


def _open_real(path: str) -> int:
    """Open a directory by its real path: a link that is there by now is not followed."""
    fd = os.open("/", _DIRECTORY)
    for part in path.split("/"):
        if part:
            try:
                step = os.open(part, _DIRECTORY, dir_fd=fd)
            finally:
                os.close(fd)
            fd = step
    return fd


def _check_same(parent: int, name: str, fd: int) -> None:
    """Raise OSError unless ``name`` is still what ``fd`` is."""
    if not os.path.samestat(os.stat(name, dir_fd=parent, follow_symlinks=False), os.fstat(fd)):
        raise OSError(errno.ESTALE, "it was replaced while it was being written", name)


def _is_empty_directory(path: str) -> bool:
    try:
        return not os.path.islink(path) and not os.listdir(path)
    except OSError:
        return False
