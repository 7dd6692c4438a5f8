"""Copies of trees: with owners, modes, attributes, times, links, devices and holes."""

from __future__ import annotations

import os
import stat

from ociruntime.errors import HostError

_PART = 1 << 30
_ATTRIBUTES_OF_OVERLAYS = "trusted.overlay."


def copy_tree(source: str, target: str, shift: int = 0) -> None:
    """Makes the directory ``target`` a copy of ``source``; owners are ``shift`` higher.

    Nothing outside of ``source`` is looked at: a symbolic link is copied as it is.  Raises
    HostError.
    """
    if not os.path.isdir(target):
        os.mkdir(target, 0o700)
    try:
        _directory(source, target, shift, {})
    except OSError as error:
        raise HostError(f"copy {source} to {target}", error) from error


def _directory(source: str, target: str, shift: int, seen: dict[tuple[int, int], str]) -> None:
    with os.scandir(source) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            to = f"{target}/{entry.name}"
            if stat.S_ISDIR(status.st_mode):
                os.mkdir(to, 0o700)
                _directory(entry.path, to, shift, seen)
                continue
            key = (status.st_dev, status.st_ino)
            if status.st_nlink > 1 and key in seen:
                os.link(seen[key], to, follow_symlinks=False)
                continue
            if not _content(entry.path, to, status):
                continue
            seen[key] = to
            copy_metadata(entry.path, to, status, shift)
    copy_metadata(source, target, os.stat(source), shift)


def _content(source: str, target: str, status: os.stat_result) -> bool:
    """Makes ``target`` of the same kind with the same content; False for a socket."""
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISREG(mode):
        _file(source, target, status.st_size)
    elif stat.S_ISSOCK(mode):
        return False
    else:
        os.mknod(target, stat.S_IFMT(mode) | 0o600, status.st_rdev)
    return True


def _file(source: str, target: str, size: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    read = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        write = os.open(target, flags, 0o600)
        try:
            os.truncate(write, size)
            end = 0
            while end < size:
                try:
                    begin = os.lseek(read, end, os.SEEK_DATA)
                except OSError:  # only a hole is left
                    break
                end = os.lseek(read, begin, os.SEEK_HOLE)
                os.lseek(read, begin, os.SEEK_SET)
                os.lseek(write, begin, os.SEEK_SET)
                left = end - begin
                while left > 0:
                    done = os.sendfile(write, read, None, min(left, _PART))
                    if not done:
                        break
                    left -= done
        finally:
            os.close(write)
    finally:
        os.close(read)


def copy_metadata(source: str, target: str, status: os.stat_result, shift: int) -> None:
    """Owner, mode, attributes and times, in the order in which none undoes another."""
    os.lchown(target, status.st_uid + shift, status.st_gid + shift)
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
