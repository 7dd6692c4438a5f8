"""Fill an empty volume with an image's files, atomically: an interrupted copy is never used.

    PARENT/NAME            the volume, to which containers may write at any time
    PARENT/.copying-NAME   an incomplete copy, locked by the process that is making it
    PARENT/.filling-NAME   a complete copy, whose entries are being moved to the volume

The copy is made beside the volume, where no container can replace its files with links.  Then its
entries are moved to the volume by renameat2(2), relative to descriptors.  So a container that
changes the volume during the move cannot redirect a write to a place outside the volume.  If a
process is killed during the move, the next ``fill`` or ``settle`` of the volume finishes the move.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable

from ociruntime.base.errors import HostError
from ociruntime.base.fault_injection import fault
from ociruntime.base.open_below_root import open_inside
from ociruntime.pods.bundle.copy_tree import PrivateUsers, copy_metadata, copy_tree
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
    """Copy the files of the image directory ``path`` to the directory ``volume``, if it is empty.

    ``tree`` is the image's root directory.  Also copies the owner, mode and attributes of ``path``
    itself.  Does nothing if the image has no directory ``path``, if ``volume`` is a symbolic link
    or a mount point, or if users other than root can write to the volume's parent directory.

    ``users`` is (first host id, number of ids) of the pod's user namespace, or None.  ``budget`` is
    called with the stat result of each file before the file is copied.  Raises HostError if a file
    cannot be copied, and any exception that ``budget`` raises.
    """
    parent, _, name = volume.rpartition("/")
    opened: list[int] = []
    try:
        opened.append(parent_fd := open_directory(parent or "/"))
        if not _is_private(parent_fd):
            return
        try:
            opened.append(volume_fd := open_directory(name, parent_fd))
            opened.append(source := _image_directory(tree, path))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL):
                return
            raise
        if os.fstat(volume_fd).st_dev == os.fstat(parent_fd).st_dev:
            _fill(parent_fd, volume_fd, name, source, users, budget)
    except OSError as error:
        raise HostError(f'fill volume "{volume}"', error) from None
    finally:
        for fd in opened:
            os.close(fd)


def _is_private(parent_fd: int) -> bool:
    """Return whether only root can create or replace files in the directory ``parent_fd``."""
    status = os.fstat(parent_fd)
    return status.st_uid == 0 and not status.st_mode & 0o022


def _image_directory(tree: str, path: str) -> int:
    root = os.open(tree, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_inside(root, path, os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(root)


def _fill(
    parent_fd: int,
    volume_fd: int,
    name: str,
    source: int,
    users: PrivateUsers,
    budget: Callable[[os.stat_result], None] | None,
) -> None:
    from ociruntime._system_calls import lib

    copying = _COPYING + name
    copy = _locked(parent_fd, copying)
    is_complete = False
    try:
        _finish_other(parent_fd, volume_fd, name)
        if os.listdir(volume_fd):
            return
        for entry in os.listdir(copy):  # stale files of a process that was killed
            remove_tree(copy, entry)
        copy_tree(f"/proc/self/fd/{source}/.", f"/proc/self/fd/{copy}/.", users, budget)
        fault("volume.before-complete")
        if error := -lib.oci_syncfs(copy):
            raise OSError(error, os.strerror(error))
        os.rename(copying, _FILLING + name, src_dir_fd=parent_fd, dst_dir_fd=parent_fd)
        is_complete = True
        fault("volume.after-complete")
        _finish(parent_fd, volume_fd, name, copy)
    finally:
        if not is_complete:
            remove_tree(parent_fd, copying)
        os.close(copy)


def _locked(parent_fd: int, name: str) -> int:
    """Open and lock the directory ``name`` in ``parent_fd``; return its descriptor.

    Creates the directory if it is missing, and waits until no other process holds its lock.
    """
    while True:
        try:
            os.mkdir(name, 0o700, dir_fd=parent_fd)
        except FileExistsError:
            pass
        try:
            fd = open_directory(name, parent_fd)
        except FileNotFoundError:
            continue
        fcntl.flock(fd, fcntl.LOCK_EX)
        if _is_named(parent_fd, name, fd):
            return fd
        os.close(fd)


def _is_named(parent_fd: int, name: str, fd: int) -> bool:
    try:
        there = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(fd))


def _finish_other(parent_fd: int, volume_fd: int, name: str) -> None:
    """Move the complete copy that a killed process left behind to the volume ``name``.

    ``parent_fd`` and ``volume_fd`` are descriptors of the volume's parent directory and of the
    volume.  Does nothing if there is no complete copy.
    """
    try:
        copy = open_directory(_FILLING + name, parent_fd)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(copy, fcntl.LOCK_EX)  # wait: the process may still be moving files
        if _is_named(parent_fd, _FILLING + name, copy):
            _finish(parent_fd, volume_fd, name, copy)
    finally:
        os.close(copy)


def _finish(parent_fd: int, volume_fd: int, name: str, copy: int) -> None:
    """Move the files of a complete copy to the volume, and remove the copy.

    ``copy`` is a descriptor of the copy, the directory ``.filling-NAME`` beside the volume; the
    caller holds its lock.  A file that already exists in the volume is kept.  It is replaced if the
    volume's filesystem does not support RENAME_NOREPLACE.
    """
    from ociruntime._system_calls import lib

    # By path and not by descriptor: only then does listdir() return names as bytes.
    for entry in os.listdir(b"/proc/self/fd/%d" % copy):
        error = -lib.oci_rename_noreplace(copy, entry, volume_fd, entry)
        if error == errno.EINVAL:  # a filesystem without RENAME_NOREPLACE
            os.rename(entry, entry, src_dir_fd=copy, dst_dir_fd=volume_fd)
        elif error not in (0, errno.EEXIST):
            raise OSError(error, os.strerror(error))
    paths = [f"/proc/self/fd/{fd}/." for fd in (copy, volume_fd)]
    copy_metadata(paths[0], paths[1], os.fstat(copy), None)
    remove_tree(parent_fd, _FILLING + name)


def settle(parent: str) -> None:
    """Clean up after killed processes that were filling volumes in the directory ``parent``.

    Moves complete copies of image files to their volumes, and removes incomplete copies.  The
    caller ensures that no other process is filling a volume in ``parent``.  Raises HostError if a
    file cannot be moved or removed.
    """
    try:
        parent_fd = open_directory(parent)
        try:
            for entry in os.listdir(parent_fd):
                if entry.startswith(_COPYING):
                    remove_tree(parent_fd, entry)
                elif entry.startswith(_FILLING):
                    _settle(parent_fd, entry.removeprefix(_FILLING))
        finally:
            os.close(parent_fd)
    except OSError as error:
        raise HostError(f'finish copying files to the volumes in "{parent}"', error) from None


def _settle(parent_fd: int, name: str) -> None:
    try:
        volume_fd = open_directory(name, parent_fd)
    except FileNotFoundError:  # the volume has been removed
        remove_tree(parent_fd, _FILLING + name)
        return
    try:
        _finish_other(parent_fd, volume_fd, name)
    finally:
        os.close(volume_fd)
