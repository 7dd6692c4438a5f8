"""Fill an empty volume with an image's files, atomically: an interrupted copy is never used.

    PARENT/NAME            the volume, in which programs may write at any moment
    PARENT/.copying-NAME   an incomplete copy, locked by the process that makes it
    PARENT/.filling-NAME   a complete copy, whose entries are being moved to the volume

The copy is made beside the volume, where no program can replace its files by links.  Its entries
are moved to the volume by rename(2), relative to descriptors, so that a program which changes the
volume meanwhile cannot redirect a write to a file outside.  A process that finds ``.filling-NAME``
finishes the move.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable

from ociruntime.base.errors import HostError
from ociruntime.base.fault_injection import fault
from ociruntime.base.open_below_root import open_inside
from ociruntime.pods.bundle.copy_files import PrivateUsers, copy_metadata, copy_tree
from ociruntime.pods.store.lock import open_directory
from ociruntime.pods.store.remove_tree import remove_tree

_COPYING = ".copying-"
_FILLING = ".filling-"


def fill(
    volume: str,
    tree: str,
    path: str,
    users: PrivateUsers = None,
    budget: Callable[[os.stat_result], None] | None = None,
) -> None:
    """Copy the directory ``path`` of the image's root ``tree`` to the ``volume``, if it is empty.

    Also copies the owner, mode and attributes of ``path`` itself.  Does nothing if the image has no
    directory ``path``, or if ``volume`` is a symbolic link or a mount point.  ``users`` and
    ``budget`` are passed to ``copy_tree``.  Raises HostError, and the errors of ``budget``.
    """
    parent, _, name = volume.rpartition("/")
    opened: list[int] = []
    try:
        opened.append(above := open_directory(parent or "/"))
        if not _is_private(above):
            return
        try:
            opened.append(below := open_directory(name, above))
            opened.append(source := _image_directory(tree, path))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL):
                return
            raise
        if os.fstat(below).st_dev == os.fstat(above).st_dev:
            _fill(above, below, name, source, users, budget)
    except OSError as error:
        raise HostError(f"fill volume {volume}", error) from None
    finally:
        for fd in opened:
            os.close(fd)


def _is_private(above: int) -> bool:
    """Return True if only root can replace files in the directory open as ``above``."""
    status = os.fstat(above)
    return status.st_uid == 0 and not status.st_mode & 0o022


def _image_directory(tree: str, path: str) -> int:
    root = os.open(tree, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_inside(root, path, os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(root)


def _fill(
    above: int,
    below: int,
    name: str,
    source: int,
    users: PrivateUsers,
    budget: Callable[[os.stat_result], None] | None,
) -> None:
    from ociruntime._shim import lib

    copying = _COPYING + name
    copy = _locked(above, copying)
    is_complete = False
    try:
        _finish_other(above, below, name)
        if os.listdir(below):
            return
        for entry in os.listdir(copy):  # stale: from a process that was killed
            remove_tree(copy, entry)
        copy_tree(f"/proc/self/fd/{source}/.", f"/proc/self/fd/{copy}/.", users, budget)
        fault("volume.before-complete")
        if error := -lib.oci_syncfs(copy):
            raise OSError(error, os.strerror(error))
        os.rename(copying, _FILLING + name, src_dir_fd=above, dst_dir_fd=above)
        is_complete = True
        fault("volume.after-complete")
        _finish(above, below, name, copy)
    finally:
        if not is_complete:
            remove_tree(above, copying)
        os.close(copy)


def _locked(above: int, name: str) -> int:
    """Create the directory ``name`` if missing, lock it and return its descriptor; may wait."""
    while True:
        try:
            os.mkdir(name, 0o700, dir_fd=above)
        except FileExistsError:
            pass
        try:
            fd = open_directory(name, above)
        except FileNotFoundError:
            continue
        fcntl.flock(fd, fcntl.LOCK_EX)
        if _is_named(above, name, fd):
            return fd
        os.close(fd)


def _is_named(above: int, name: str, fd: int) -> bool:
    try:
        there = os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(fd))


def _finish_other(above: int, below: int, name: str) -> None:
    """If a killed process left a complete copy, move the entries of the copy to the volume."""
    try:
        copy = open_directory(_FILLING + name, above)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(copy, fcntl.LOCK_EX)  # the process may be alive, and still moving entries
        if _is_named(above, _FILLING + name, copy):
            _finish(above, below, name, copy)
    finally:
        os.close(copy)


def _finish(above: int, below: int, name: str, copy: int) -> None:
    """Move the entries of the complete, locked copy ``.filling-NAME`` to the volume."""
    from ociruntime._shim import lib

    # Through /proc: listing by path returns names as bytes.
    for entry in os.listdir(b"/proc/self/fd/%d" % copy):
        error = -lib.oci_rename_noreplace(copy, entry, below, entry)
        if error == errno.EINVAL:  # a filesystem without RENAME_NOREPLACE
            os.rename(entry, entry, src_dir_fd=copy, dst_dir_fd=below)
        elif error not in (0, errno.EEXIST):
            raise OSError(error, os.strerror(error))
    paths = [f"/proc/self/fd/{fd}/." for fd in (copy, below)]
    copy_metadata(paths[0], paths[1], os.fstat(copy), None)
    remove_tree(above, _FILLING + name)


def settle(parent: str) -> None:
    """Fill each volume in directory ``parent`` from its complete copy; remove incomplete copies.

    The caller makes sure that no process fills a volume in ``parent``.  Raises HostError.
    """
    try:
        above = open_directory(parent)
        try:
            for entry in os.listdir(above):
                if entry.startswith(_COPYING):
                    remove_tree(above, entry)
                elif entry.startswith(_FILLING):
                    _settle(above, entry.removeprefix(_FILLING))
        finally:
            os.close(above)
    except OSError as error:
        raise HostError(f"finish copying files to the volumes in {parent}", error) from None


def _settle(above: int, name: str) -> None:
    try:
        below = open_directory(name, above)
    except FileNotFoundError:  # the volume has been removed
        remove_tree(above, _FILLING + name)
        return
    try:
        _finish_other(above, below, name)
    finally:
        os.close(below)
