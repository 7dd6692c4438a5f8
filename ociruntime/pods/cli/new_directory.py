"""Create a directory or file atomically, at a path that the user has given."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from ociruntime.base.errors import HostError, UsageError
from ociruntime.pods.store.remove_tree import remove_tree

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def check_target(target: str, data: str, *, overwrite: bool) -> str:
    """Check that the directory ``target`` can be created or replaced; return its absolute path.

    Without ``overwrite``, only an empty directory can be replaced.  ``data`` is ocipod's data
    directory.  Raises UsageError for a file, a mount point, and any directory inside ``data``.  A
    directory that is or contains ``data`` or the working directory is refused, too.  So is a
    symbolic link, because a container may have created it in a volume to redirect the write.
    """
    absolute = os.path.abspath(target)
    if os.path.islink(absolute):
        raise UsageError(
            f'create "{target}": it is a symbolic link', "use the path of the directory itself"
        )
    path = os.path.realpath(absolute)
    for protected in (data, os.getcwd(), "/"):
        if os.path.commonpath([path, os.path.realpath(protected)]) == path:
            reason = (
                "it is the root directory" if path == "/" else f'it is or contains "{protected}"'
            )
            raise UsageError(f'replace "{target}": {reason}', "use another directory")
    inside = os.path.realpath(data)
    if os.path.commonpath([path, inside]) == inside:
        raise UsageError(
            f'create "{target}": it is inside the data directory "{data}"', "use another directory"
        )
    if os.path.ismount(path):
        raise UsageError(f'create "{target}": it is a mount point', "use another directory")
    if os.path.lexists(path) and not _is_empty_directory(path):
        if not overwrite:
            raise UsageError(
                f'create "{target}": it already exists', "use --overwrite to replace it"
            )
        if not os.path.isdir(path):
            raise UsageError(f'replace "{target}": it is not a directory', "use another path")
    return path


def put_directory(path: str, fill: Callable[[int], None]) -> None:
    """Create or replace the directory ``path``, a path that ``check_target`` has returned.

    Creates a temporary directory beside ``path``, calls ``fill`` with its descriptor, and renames
    the directory to ``path``.  No symbolic link is followed, because a container may have write
    access to the parent directory.  Raises HostError if the directory cannot be created, and any
    exception that ``fill`` raises; an existing directory is then unchanged.
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
        raise HostError(f'create directory "{path}"', error) from None


def _put(parent: int, temporary: str, name: str) -> None:
    """Replace the directory ``name`` with the directory ``temporary``.

    Both are names in the directory ``parent``, a descriptor.  Raises OSError if a rename or removal
    fails.
    """
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
    """Context manager: yield a new temporary file; at the end, rename it to ``target``.

    If the context ends with an exception, the temporary file is removed.  If ``target`` is "-",
    yields standard output instead.  Raises UsageError if ``target`` is a directory, or if it exists
    and ``overwrite`` is False; HostError if the file cannot be written.
    """
    if target == "-":
        yield open(1, "wb", closefd=False)
        return
    path = os.path.abspath(target)
    if os.path.isdir(path):
        raise UsageError(f'write "{target}": it is a directory', "use the path of a file")
    if os.path.lexists(path) and not overwrite:
        raise UsageError(f'create "{target}": it already exists', "use --overwrite to replace it")
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
    """Open the directory ``path`` and return its descriptor.

    Raises OSError if a component of ``path`` is a symbolic link.
    """
    fd = os.open("/", _DIRECTORY)
    for part in path.split("/"):
        if part:
            try:
                child = os.open(part, _DIRECTORY, dir_fd=fd)
            finally:
                os.close(fd)
            fd = child
    return fd


def _check_same(parent: int, name: str, fd: int) -> None:
    """Check that ``name`` in the directory ``parent`` is the file with the descriptor ``fd``.

    If not, raises OSError (ESTALE): the file has been replaced.
    """
    if not os.path.samestat(os.stat(name, dir_fd=parent, follow_symlinks=False), os.fstat(fd)):
        raise OSError(
            errno.ESTALE, "its temporary file was replaced while it was being written", name
        )


def _is_empty_directory(path: str) -> bool:
    try:
        return not os.path.islink(path) and not os.listdir(path)
    except OSError:
        return False
