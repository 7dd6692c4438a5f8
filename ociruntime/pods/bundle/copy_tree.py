"""Copy directory trees, keeping owners, modes, xattrs, times, hard links, devices and holes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from ociruntime.base.deep_tree import TreeCursor, open_regular, walk
from ociruntime.base.errors import HostError

PrivateUsers = tuple[int, int] | None  # (first host id, count); None: no user namespace

_PART = 1 << 30
_ATTRIBUTES_OF_OVERLAYS = "trusted.overlay."
_NOBODY = 65534


def owner_on_host(id: int, private_users: PrivateUsers) -> int:
    """Return the UID or GID on the host for ``id``, a UID or GID in an image.

    ``private_users`` is (first host id, number of ids) of the pod's user namespace: the result is
    the first host id plus ``id``.  Without a user namespace (None), the result is ``id``.  An
    ``id`` that the namespace does not map becomes the pod's nobody (65534), as in an id-mapped
    overlay, because the sum could be an id of another pod.
    """
    if private_users is None:
        return id
    first, count = private_users
    return first + (id if id < count else _NOBODY)


def copy_tree(
    source: str,
    target: str,
    private_users: PrivateUsers = None,
    budget: Callable[[os.stat_result], None] | None = None,
) -> None:
    """Copy the directory ``source`` to ``target``, mapping owners with ``owner_on_host``.

    Symbolic links are copied, never followed; sockets are skipped.  ``budget`` is called with the
    stat result of each file before the file is copied, and may raise an exception to stop copying.
    Raises HostError if a file cannot be read or written.
    """
    try:
        if not os.path.isdir(target):
            os.mkdir(target, 0o700)
        with TreeCursor(target) as to:
            _copy_inside(source, to, private_users, budget or _allow)
        copy_metadata(source, target, os.stat(source), private_users)
    except OSError as error:
        raise HostError(f'copy "{source}" to "{target}"', error) from error


def _allow(status: os.stat_result) -> None:
    del status


def _copy_inside(
    source: str,
    to: TreeCursor,
    private_users: PrivateUsers,
    budget: Callable[[os.stat_result], None],
) -> None:
    seen: dict[tuple[int, int], str] = {}
    for file in walk(source):
        status = file.status
        if not file.leaving:
            budget(status)
        if stat.S_ISDIR(status.st_mode):
            if file.leaving:
                to.up()
                copy_metadata(file.path, to.path(file.name), status, private_users)
            else:
                os.mkdir(file.name, 0o700, dir_fd=to.fd)
                to.down(file.name)
            continue
        key = (status.st_dev, status.st_ino)
        if status.st_nlink > 1 and key in seen:
            _link(to, seen[key].split("/"), file.name)
        elif _content(file.path, to.path(file.name), status):
            copy_metadata(file.path, to.path(file.name), status, private_users)
            if status.st_nlink > 1:
                seen[key] = "/".join([*to.names, file.name])


def _link(to: TreeCursor, first: list[str], name: str) -> None:
    fd = to.reach(first[:-1])
    try:
        os.link(first[-1], name, src_dir_fd=fd, dst_dir_fd=to.fd, follow_symlinks=False)
    finally:
        os.close(fd)


def _content(source: str, target: str, status: os.stat_result) -> bool:
    """Create ``target`` with the type and content of ``source``.

    Returns False if ``source`` is a socket, which is not copied.
    """
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISREG(mode):
        _file(source, target, status)
    elif stat.S_ISSOCK(mode):
        return False
    else:
        os.mknod(target, stat.S_IFMT(mode) | 0o600, status.st_rdev)
    return True


def _file(source: str, target: str, status: os.stat_result) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    read, size = open_regular(source, status), status.st_size
    try:
        write = os.open(target, flags, 0o600)
        try:
            os.truncate(write, size)
            end = 0
            while end < size:
                try:
                    begin = os.lseek(read, end, os.SEEK_DATA)
                except OSError:  # ENXIO: only a hole remains
                    break
                end = os.lseek(read, begin, os.SEEK_HOLE)
                os.lseek(read, begin, os.SEEK_SET)
                os.lseek(write, begin, os.SEEK_SET)
                remaining = end - begin
                while remaining > 0:
                    done = os.sendfile(write, read, None, min(remaining, _PART))
                    if not done:
                        break
                    remaining -= done
        finally:
            os.close(write)
    finally:
        os.close(read)


def copy_metadata(
    source: str, target: str, status: os.stat_result, private_users: PrivateUsers
) -> None:
    """Copy the owner, mode, extended attributes and times of ``source`` to ``target``.

    ``status`` is the result of lstat(2) for ``source``.  The owner is mapped with
    ``owner_on_host``, and set before the mode, because chown(2) clears setuid bits.  Raises OSError
    if an attribute cannot be set.
    """
    uid = owner_on_host(status.st_uid, private_users)
    os.lchown(target, uid, owner_on_host(status.st_gid, private_users))
    is_link = stat.S_ISLNK(status.st_mode)
    if not is_link:
        os.chmod(target, stat.S_IMODE(status.st_mode))
    for name in os.listxattr(source, follow_symlinks=False):
        if name.startswith(_ATTRIBUTES_OF_OVERLAYS):
            continue
        value = os.getxattr(source, name, follow_symlinks=False)
        os.setxattr(target, name, value, follow_symlinks=False)
    times = (status.st_atime_ns, status.st_mtime_ns)
    os.utime(target, ns=times, follow_symlinks=False)
